"""The engine's invariants over 500 generated conversations, or as many as AGENTX_EXAMPLES says."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentx.llm.messages import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from conversations.context.assemble import assemble_view
from conversations.context.evidence import empty_evidence
from conversations.context.layout import FRAME_TOKENS
from conversations.context.record import trace_fates
from conversations.context.segments import hash_sources
from conversations.context.types import DoesNotFitError, Passage
from tests.conversations.context.generated import (
    HOSTILE,
    TOOL,
    conversations,
    messages_of,
    windows,
)
from tests.conversations.context.simulation import COUNTER, Sent, Simulation

pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.NonInteractiveExampleWarning")

examples = settings(
    max_examples=int(os.environ.get("AGENTX_EXAMPLES", "500")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    report_multiple_bugs=False,
)
RECALLED = Passage(turn=1, seqs=(1,), text="[turn 1, user] recalled words", score=1.0, tokens=12)


def play(script, window: int, calibration: float) -> Iterator[tuple[Simulation, Sent | None, Sent]]:
    """The conversation, turn after turn: what was sent before, and what is sent now."""
    simulation = Simulation(window=window, calibration=calibration, twice=True)
    previous: Sent | None = None
    for turn in script:
        change(simulation, turn)
        try:
            sent = simulation.ask(turn.question, parts=turn.parts)
        except DoesNotFitError as failed:
            require_honest(failed)
            simulation.reply(*messages_of(turn))
            continue
        yield simulation, previous, sent
        simulation.reply(*messages_of(turn))
        previous = sent


def require_honest(failed: DoesNotFitError) -> None:
    """A refusal names the blocks, and they really are too much."""
    assert sum(failed.needs.values()) > failed.budget
    assert {"base_prompt", "question"} <= set(failed.needs)


def change(simulation: Simulation, turn) -> None:
    """What a person or an operator does between two turns."""
    if turn.change == "edit" and len(simulation.rows) > 1:
        starts = [row.seq for row in simulation.rows if row.role == "user"]
        simulation.edit(starts[int(turn.where * (len(starts) - 1))])
    elif turn.change == "model":
        simulation.model += "+"
    elif turn.change == "prompt":
        simulation.system += " Really."
    elif turn.change == "window":
        simulation.window = max(700, int(simulation.window * (0.5 + turn.where)))
    elif turn.change == "tools":
        simulation.tools = () if simulation.tools else (TOOL,)
    elif turn.change == "strict":
        simulation.strict_roles = not simulation.strict_roles
    simulation.passages = (RECALLED,) if turn.where > 0.5 else ()


def check_inv_1_what_is_not_in_view_is_covered_or_announced(
    simulation: Simulation, previous: Sent | None, sent: Sent
) -> None:
    """INV-1, CTX-09: every live message is sent, or an active segment stands for it, or a notice names it."""
    epoch = sent.snapshot.epoch
    blocks = {block.key: block for block in epoch.blocks}
    seen = {item.message.seq for item in sent.view.history}
    live = [row.seq for row in simulation.rows[:-1]]

    for seq in live:
        if seq > epoch.cut_seq:
            unsendable = [row for row in sent.snapshot.history if row.seq == seq and row.seq not in seen]
            assert seq in seen or (unsendable and sent.view.repaired is None)
        elif seq > epoch.covered_seq or "digest" not in blocks or not blocks["digest"].content:
            notice = blocks["overflow_notice"]
            assert f"to {epoch.cut_seq} of this conversation are neither shown" in notice.content or (
                notice.action == "dropped"
                and sent.view.allocation.used + notice.asked * simulation.calibration > _room(sent)
            )
    assert sent.view.repaired is None


def _room(sent: Sent) -> int:
    """Tokens that a view may use when room for recall stands free: a question is never refused for a notice."""
    ratio = sent.snapshot.model.calibration
    return int(sent.view.allocation.budget * 0.65 - 2 * FRAME_TOKENS * ratio)


def check_inv_1_active_segments_tile_the_live_transcript_and_vouch_for_it(
    simulation: Simulation, previous: Sent | None, sent: Sent
) -> None:
    """INV-1, INV-9: gapless, without overlap, each over exactly the live messages that its hash names."""
    end = 0
    for segment in simulation.segments:
        assert segment.from_seq == end + 1
        end = segment.through_seq
        rows = [row for row in simulation.rows if segment.from_seq <= row.seq <= segment.through_seq]
        assert (segment.from_id, segment.through_id) == (rows[0].id, rows[-1].id)
        if segment.level == 0:
            assert segment.source_hash == hash_sources(rows)
    assert end >= simulation.epoch.covered_seq


def check_inv_2_building_a_view_changes_nothing_it_was_given(
    simulation: Simulation, previous: Sent | None, sent: Sent
) -> None:
    """INV-2, CTX-28."""
    before = copy.deepcopy(sent.snapshot)

    again = assemble_view(snapshot=sent.snapshot, counter=COUNTER)

    assert sent.snapshot == before
    assert again == sent.view
    assert simulation.rows[-1].content == sent.snapshot.question.content


def check_inv_3_every_exchange_is_whole_and_the_question_untouched(
    simulation: Simulation, previous: Sent | None, sent: Sent
) -> None:
    """INV-3, CTX-21, RUN-33: calls and results in pairs, adjacent, in order; ids unique; the question last."""
    waiting: list[str] = []
    ids: list[str] = []
    for message in sent.view.messages:
        if isinstance(message, ToolMessage):
            assert waiting
            assert message.tool_call_id == waiting.pop(0)
            assert message.content
            continue
        assert not waiting
        if isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.tool_calls]
            ids += waiting
        assert message.content.strip() or getattr(message, "parts", ()) or waiting
    assert not waiting
    assert len(ids) == len(set(ids))
    last, question = sent.view.messages[-1], simulation.rows[-1]
    assert isinstance(last, UserMessage)
    if simulation.strict_roles:
        roles = [m.role for m in sent.view.messages if m.role in ("user", "system")]
        assert roles[0] == "system"
        merged = last.content + "".join(getattr(part, "text", "") for part in last.parts)
        assert question.content in merged
    else:
        assert (last.content, last.parts) == (question.content, question.parts)


def check_inv_4_the_whole_request_is_within_the_budget(
    simulation: Simulation, previous: Sent | None, sent: Sent
) -> None:
    """INV-4, CTX-13: counted again from the messages themselves, tools included."""
    allocation = sent.view.allocation
    counted = sum(COUNTER.count_message(message) for message in sent.view.messages)
    counted += COUNTER.count_tools(sent.view.tools) if sent.view.tools else 0

    assert allocation.used <= allocation.budget
    assert counted * simulation.calibration <= allocation.used + 1
    assert sum(grant.granted for grant in allocation.grants) == allocation.used


def check_inv_5_within_an_epoch_every_request_extends_the_one_before(
    simulation: Simulation, previous: Sent | None, sent: Sent
) -> None:
    """INV-5, CTX-29: byte for byte up to the volatile tail; a new epoch has a reason, and only then may it differ."""
    assert (sent.begun is not None) == (
        previous is None or previous.snapshot.epoch.number != sent.snapshot.epoch.number
    )
    if previous is None or sent.begun is not None:
        return
    assert previous.snapshot.revision == simulation.revision
    assert as_text(sent).startswith(stable_text(previous))


def stable_text(sent: Sent) -> str:
    """A request as one text, up to its volatile tail."""
    tail = len(sent.view.messages) - 1 - bool(sent.view.tail)
    if not sent.snapshot.model.strict_roles:
        return "".join(_text(message) for message in sent.view.messages[:tail])
    whole = as_text(sent)
    end = whole.rfind(sent.view.tail) if sent.view.tail else whole.rfind(sent.snapshot.question.content)
    return whole[:end].rstrip("\n")


def as_text(sent: Sent) -> str:
    """A request as one text, everything that is sent included."""
    return "".join(_text(message) for message in sent.view.messages)


def _text(message) -> str:
    parts = "".join(f"\n\n{getattr(part, 'text', repr(part))}" for part in getattr(message, "parts", ()))
    calls = "".join(f"<call {call!r}>" for call in getattr(message, "tool_calls", ()))
    answered = f"<answers {message.tool_call_id}>" if isinstance(message, ToolMessage) else ""
    return f"<{message.role}>{answered}{message.content}{parts}{calls}"


def check_inv_6_only_the_operator_speaks_in_the_system_role(
    simulation: Simulation, previous: Sent | None, sent: Sent
) -> None:
    """INV-6."""
    system = [message for message in sent.view.messages if isinstance(message, SystemMessage)]

    assert [message.content for message in system] == [simulation.system]
    assert sent.view.messages[0] == system[0]


def check_inv_7_coverage_never_moves_back(simulation: Simulation, previous: Sent | None, sent: Sent) -> None:
    """INV-7: the simulation has begun every epoch twice and compared; here, monotony but for edits."""
    if previous is not None and previous.snapshot.revision == simulation.revision:
        assert sent.snapshot.epoch.covered_seq >= previous.snapshot.epoch.covered_seq


def check_inv_8_text_of_tools_never_becomes_evidence_or_a_constraint(
    simulation: Simulation, previous: Sent | None, sent: Sent
) -> None:
    """INV-8, STA-15: what a tool or a page said is in no block that states what the user wants."""
    for entries in simulation.evidence.buckets.values():
        assert all(HOSTILE not in entry.text for entry in entries)
    for block in sent.snapshot.epoch.blocks:
        if block.key in ("pinned_constraints", "evidence_ledger"):
            assert HOSTILE not in block.content


def check_inv_9_cuts_are_anchored_to_messages_and_appending_changes_none(
    simulation: Simulation, previous: Sent | None, sent: Sent
) -> None:
    """INV-9: the cut names a message by seq and id; without an epoch change the segments are those there were."""
    epoch = sent.snapshot.epoch
    if epoch.cut_seq and epoch.cut_message_id is not None:
        assert epoch.cut_message_id == next(row.id for row in simulation.rows if row.seq == epoch.cut_seq)
    if previous is not None and sent.begun is None:
        assert sent.segments == previous.segments


def check_every_message_has_a_fate_that_the_stored_run_alone_tells(
    simulation: Simulation, previous: Sent | None, sent: Sent
) -> None:
    """CTX-08: what the record says was sent is what was sent, form by form."""
    fates = {
        seq: fate.fates
        for fate in trace_fates(record=sent.record)
        for seq in range(fate.from_seq, fate.through_seq + 1)
    }

    assert set(fates) == set(range(1, simulation.rows[-1].seq))
    for item in sent.view.history:
        assert item.form in fates[item.message.seq]
    for passage in sent.view.recalled:
        assert all("recalled" in fates[seq] for seq in passage.seqs)


CHECKS = (
    check_inv_1_what_is_not_in_view_is_covered_or_announced,
    check_inv_1_active_segments_tile_the_live_transcript_and_vouch_for_it,
    check_inv_2_building_a_view_changes_nothing_it_was_given,
    check_inv_3_every_exchange_is_whole_and_the_question_untouched,
    check_inv_4_the_whole_request_is_within_the_budget,
    check_inv_5_within_an_epoch_every_request_extends_the_one_before,
    check_inv_6_only_the_operator_speaks_in_the_system_role,
    check_inv_7_coverage_never_moves_back,
    check_inv_8_text_of_tools_never_becomes_evidence_or_a_constraint,
    check_inv_9_cuts_are_anchored_to_messages_and_appending_changes_none,
    check_every_message_has_a_fate_that_the_stored_run_alone_tells,
)


@examples
@given(script=conversations, window=windows, calibration=st.sampled_from([0.9, 1.0, 1.37, 2.0]))
def test_inv_1_to_9_hold_for_every_request_of_any_conversation(script, window, calibration):
    """INV-1 to INV-9, each checked on every request of every generated conversation."""
    for simulation, previous, sent in play(script, window, calibration):
        for check in CHECKS:
            check(simulation, previous, sent)


def test_inv_1_a_conversation_that_came_in_whole_announces_what_was_never_loaded():
    """CMP-22: no segment reaches so far, so a notice names the messages, and what was loaded is quoted by rule."""
    simulation = Simulation(window=8_192)
    for number in range(1, 1_001):
        simulation.add("user", f"Question {number}.", turn=number)
        simulation.add("assistant", f"Answer {number}.", turn=number)
    simulation.next_turn = 1_001
    simulation.evidence = empty_evidence()

    sent = simulation.ask("And now?")

    blocks = {block.key: block.content for block in sent.snapshot.epoch.blocks}
    cut = sent.snapshot.epoch.cut_seq
    assert cut >= 1_600
    assert (
        f"Messages 1 to {cut} of this conversation are neither shown nor summarized"
        in blocks["overflow_notice"]
    )
    assert "digest" not in blocks
    assert sent.view.history[0].message.seq == cut + 1
