"""The database itself refuses to rewrite the transcript.

What was said, its order and its hash never change. Marks (superseded, deleted) and token counts may. Rows go only with
their whole conversation, which announces itself by ``SET LOCAL agentx.purging = 'on'``.
"""

from django.db import migrations

FORWARD = """
CREATE FUNCTION agentx_message_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF coalesce(current_setting('agentx.purging', true), '') <> 'on' THEN
            RAISE EXCEPTION 'messages are append-only: delete the conversation instead'
                USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN OLD;
    END IF;
    IF (NEW.id, NEW.conversation_id, NEW.seq, NEW.turn, NEW.role, NEW.content, NEW.parts, NEW.tool_calls,
        NEW.tool_call_id, NEW.artifact, NEW.status, NEW.run_id, NEW.chain_hash, NEW.metadata, NEW.created_at)
       IS DISTINCT FROM
       (OLD.id, OLD.conversation_id, OLD.seq, OLD.turn, OLD.role, OLD.content, OLD.parts, OLD.tool_calls,
        OLD.tool_call_id, OLD.artifact, OLD.status, OLD.run_id, OLD.chain_hash, OLD.metadata, OLD.created_at) THEN
        RAISE EXCEPTION 'messages are append-only: message % cannot be rewritten', OLD.id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER agentx_message_guard BEFORE UPDATE OR DELETE ON conversations_message
    FOR EACH ROW EXECUTE FUNCTION agentx_message_guard();
"""

REVERSE = """
DROP TRIGGER agentx_message_guard ON conversations_message;
DROP FUNCTION agentx_message_guard();
"""


class Migration(migrations.Migration):
    dependencies = [("conversations", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, REVERSE)]
