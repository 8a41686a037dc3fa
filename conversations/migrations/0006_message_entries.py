import django.contrib.postgres.search
import django.db.models.deletion
import pgvector.django.halfvec
from django.db import migrations, models
from pgvector.django import VectorExtension

# One number for each lexeme of one conversation. 64 bits: two pairs among a billion that share a number cost one row more
# to look at, and the reader compares conversation and words again. fastupdate off: a search must not read a list of
# entries that wait to be sorted in.
FORWARD = """
CREATE FUNCTION agentx_word_key(conversation uuid, lexeme text) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT hashtextextended(lexeme COLLATE "C", uuid_hash_extended(conversation, 0)) $$;
CREATE FUNCTION agentx_word_keys(conversation uuid, words tsvector) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT coalesce(array_agg(hashtextextended(lexeme COLLATE "C", uuid_hash_extended(conversation, 0))), '{}')
          FROM unnest(tsvector_to_array(words)) AS lexeme $$;
CREATE INDEX message_entry_keys ON conversations_messageentry
    USING gin (agentx_word_keys(conversation_id, words)) WITH (fastupdate = off);
-- Every search looks into the same words once for each of its terms: they must neither be fetched nor unpacked each time.
ALTER TABLE conversations_messageentry ALTER COLUMN words SET STORAGE EXTERNAL;
ALTER TABLE conversations_messageentry SET (toast_tuple_target = 8160);
"""

REVERSE = """
DROP INDEX message_entry_keys;
DROP FUNCTION agentx_word_keys(uuid, tsvector);
DROP FUNCTION agentx_word_key(uuid, text);
"""


class Migration(migrations.Migration):
    dependencies = [("conversations", "0005_evidence_ledger")]

    operations = [
        VectorExtension(),
        migrations.CreateModel(
            name="MessageEntry",
            fields=[
                (
                    "message",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="entry",
                        serialize=False,
                        to="conversations.message",
                    ),
                ),
                ("seq", models.IntegerField()),
                ("role", models.CharField(max_length=16)),
                ("length", models.IntegerField()),
                ("words", django.contrib.postgres.search.SearchVectorField()),
                ("vector", pgvector.django.halfvec.HalfVectorField(dimensions=256, null=True)),
                (
                    "conversation",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="entries",
                        to="conversations.conversation",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=["conversation", "seq"], name="message_entry_seq")
                ],
            },
        ),
        migrations.RunSQL(FORWARD, REVERSE),
    ]
