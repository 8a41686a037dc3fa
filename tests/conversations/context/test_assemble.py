"""Views turn after turn: what stands where, when the cut moves, and what the allocation says."""

from __future__ import annotations

import itertools

import pytest

from agentx.llm.messages import ImagePart, SystemMessage, ToolCall, ToolSchema, UserMessage
from conversations.context.assemble import assemble_view
from conversations.context.evidence import empty_evidence, fold_messages
from conversations.context.layout import derive_recall_tokens
from conversations.context.record import trace_fates
from conversations.context.render import CONTEXT_LABEL, RECALL_END, RECALL_LABEL
from conversations.context.types import DoesNotFitError, Passage
from tests.conversations.context.simulation import COUNTER, Simulation

TOOL = ToolSchema(name="look_up", description="Looks things up in a table.", parameters={"type": "object"})
READ_THREAD = ToolSchema(name="read_thread", description="Reads turns.", parameters={"type": "object"})


def words(n: int, tag: str = "word") -> str:
    return f"{tag} " * n


def filled(turns: int, **fields) -> Simulation:
    """A conversation of turns of about 170 tokens."""
    simulation = Simulation(**{"window": 8_192} | fields)
    for n in range(turns):
        simulation.turn(f"Question {n}. {words(40)}", f"Answer {n}. {words(80)}")
    return simulation


def grants(sent) -> dict:
    return {grant.key: grant for grant in sent.view.allocation.grants}


def test_everything_fits_and_is_sent_in_order():
    simulation = Simulation()
    simulation.turn("a", "b")

    sent = simulation.ask("c")

    assert [(m.role, m.content) for m in sent.view.messages] == [
        ("system", "Be brief."),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
    ]
    assert sent.view.allocation.dropped_turns == 0
    assert grants(sent)["history"].action == "full"


def test_the_order_is_system_context_history_tail_question():
    """CTX-05, STA-19, known failures 6, 26, 28: what changes stands last, and the digest before what it does not cover."""
    simulation = filled(60)
    simulation.passages = (Passage(turn=2, seqs=(3,), text="[turn 2, user] old words", score=1.0, tokens=9),)

    sent = simulation.ask("And now?")

    system, context, first, *_, tail, question = sent.view.messages
    assert isinstance(system, SystemMessage)
    assert context.content.startswith(CONTEXT_LABEL)
    assert first.content.startswith("Question")
    assert tail == UserMessage(content=f"{RECALL_LABEL}\n\n[turn 2, user] old words\n\n{RECALL_END}")
    assert question == UserMessage(content="And now?")
    assert sent.view.history[0].message.seq == sent.snapshot.epoch.cut_seq + 1


def test_ctx_22_cuts_are_few_and_far_between():
    """CTX-22: 30-turn growth: at most 5 cuts, at least 3 turns apart, history far below its room after each."""
    simulation = Simulation(window=12_000)
    cuts = []
    for n in range(30):
        sent = simulation.turn(f"Question {n}. {words(150)}", f"Answer {n}. {words(350)}")
        if sent.begun and sent.snapshot.epoch.cut_seq:
            cuts.append(n)
            assert grants(sent)["history"].granted <= 0.75 * sent.view.allocation.budget

    assert 1 <= len(cuts) <= 5
    assert all(later - earlier >= 3 for earlier, later in itertools.pairwise(cuts))


def test_known_failure_20_no_second_cut_without_new_tokens():
    simulation = filled(60)
    epoch = simulation.epoch.number
    simulation.ask("short")

    again = simulation.send()

    assert again.begun is None
    assert simulation.epoch.number - epoch <= 1


def test_known_failure_13_pinned_constraints_survive_ten_cuts_word_for_word():
    simulation = Simulation(window=3_000)
    simulation.turn("The budget must never exceed 84,500 CHF.", "Understood.")
    epochs = 0
    while epochs < 10:
        sent = simulation.turn(f"Tell me more. {words(60)}", f"Gladly. {words(90)}")
        epochs += sent.begun is not None

    pinned = next(block for block in sent.snapshot.epoch.blocks if block.key == "pinned_constraints")
    assert "The budget must never exceed 84,500 CHF." in pinned.content
    assert pinned.content in sent.view.messages[1].content
    assert pinned.seqs == (1,)


def test_known_failure_13_constraints_of_a_ledger_that_lagged_are_pinned_by_the_next_epoch():
    """Of a conversation that came in whole, the first request folds a part; nothing may build on that part for ever."""
    simulation = Simulation(window=8_192)
    for number in range(1, 1_001):
        said = "Never deploy on a Friday." if number == 400 else f"Question {number}."
        simulation.add("user", said, turn=number)
        simulation.add("assistant", f"Answer {number}.", turn=number)
    simulation.next_turn = 1_001
    rows = tuple(simulation.rows)
    simulation.evidence = fold_messages(evidence=empty_evidence(), messages=rows[:400], counter=COUNTER)

    first = simulation.turn("And now?")
    simulation.evidence = fold_messages(evidence=empty_evidence(), messages=rows, counter=COUNTER)
    simulation.model = "another"
    second = simulation.turn("And then?")

    assert first.snapshot.epoch.evidence is None
    assert "Never deploy on a Friday." not in first.view.messages[1].content
    assert "Never deploy on a Friday." in second.view.messages[1].content


def test_known_failure_13_an_edit_in_view_keeps_what_was_pinned_although_the_ledger_is_not_built_again_yet():
    simulation = Simulation(window=3_000)
    simulation.turn("The budget must never exceed 84,500 CHF.", "Understood.")
    while not simulation.epoch.cut_seq:
        simulation.turn(f"Tell me more. {words(60)}", f"Gladly. {words(90)}")

    simulation.edit(simulation.rows[-2].seq)
    simulation.evidence = empty_evidence()
    sent = simulation.ask("Tell me less.")

    assert sent.snapshot.epoch.reason == "edit"
    assert "The budget must never exceed 84,500 CHF." in sent.view.messages[1].content


def test_what_is_recorded_says_when_no_digest_had_room():
    """CTX-08: the run tells what the model saw, not what it might have seen."""
    simulation = filled(60, window=2_000)
    budget = simulation.sent[-1].view.allocation.budget

    sent = simulation.ask(words((budget - 150) * 3 // 2, "q"))

    assert sent.snapshot.epoch.covered_seq > 0
    assert not any(block.key == "digest" and block.content for block in sent.snapshot.epoch.blocks)
    assert sent.record["covered_seq"] == 0
    assert {fate.fates for fate in trace_fates(record=sent.record)} <= {("reachable",), ("in_ledger",)}


def test_a_refusal_counts_images_as_the_model_does():
    """CTX-18: the figures of an error add up."""
    image = ImagePart(url="data:image/png;base64,AAAA", media_type="image/png")
    snapshot = Simulation(window=6_000).ask("What is this?", parts=(image,)).snapshot
    dear = COUNTER.with_image_tokens(20_000)

    with pytest.raises(DoesNotFitError) as failed:
        assemble_view(snapshot=snapshot, counter=dear)

    assert failed.value.needs["question"] > 20_000
    assert sum(failed.value.needs.values()) > failed.value.budget


def test_known_failure_10_ten_cuts_leave_no_gap():
    simulation = Simulation(window=2_000)
    while len({segment.anchor for segment in simulation.segments}) == 0 or simulation.epoch.number < 12:
        sent = simulation.turn(f"Next. {words(50)}", f"Yes. {words(70)}")

    seen = {item.message.seq for item in sent.view.history}
    covered = set(range(1, sent.snapshot.epoch.covered_seq + 1))
    assert seen | covered == set(range(1, sent.snapshot.question.seq))


def test_a_short_form_is_tried_before_a_cut():
    """TUR-21, TUR-22, CTX-19: one huge answer is shortened, and nothing leaves the view."""
    simulation = Simulation(window=8_192)
    simulation.turn("Write a report.", words(2_000, "report"))
    simulation.turn("Thanks. What next?", words(300))

    sent = simulation.ask("And then? " + words(600))

    assert sent.begun is not None
    assert sent.snapshot.epoch.reason == "forms"
    assert sent.snapshot.epoch.cut_seq == 0
    assert [item.form for item in sent.view.history][:2] == ["verbatim", "shortened"]
    assert grants(sent)["history"].action == "shrunk"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": "other"}, "model"),
        ({"system": "Be long."}, "prompt"),
        ({"tools": (TOOL,)}, "tools"),
    ],
)
def test_inv_5_whatever_stands_in_front_changes_only_with_a_recorded_reason(change, reason):
    """INV-5."""
    simulation = filled(3)
    for name, value in change.items():
        setattr(simulation, name, value)

    sent = simulation.ask("Go on.")

    assert sent.begun is not None
    assert sent.snapshot.epoch.reason == reason
    assert simulation.send().begun is None


def test_known_failure_11_an_edit_begins_an_epoch_at_every_position():
    for position in range(1, 40, 2):
        simulation = filled(45, window=3_000)
        simulation.edit(position)

        sent = simulation.ask("Instead, tell me this.")

        assert sent.snapshot.epoch.reason == "edit"
        text = "".join(message.content for message in sent.view.messages)
        assert f"Question {position // 2}." not in text
        covered = set(range(1, sent.snapshot.epoch.covered_seq + 1))
        seen = {item.message.seq for item in sent.view.history}
        assert seen | covered == set(range(1, position))


def test_known_failure_23_a_long_history_moves_to_a_model_with_a_small_window():
    simulation = filled(150, window=200_000)
    simulation.model, simulation.window = "small", 8_192

    sent = simulation.ask("Still there?")

    assert sent.view.allocation.used <= sent.view.allocation.budget == 5_632
    assert sent.snapshot.epoch.reason == "model"
    assert sent.snapshot.epoch.covered_seq == sent.snapshot.epoch.cut_seq > 0


def test_ctx_17_a_question_that_cannot_fit_is_an_error_that_names_every_block():
    """CTX-17, CTX-18, INV-4."""
    simulation = Simulation(window=1_000, tools=(TOOL,))

    with pytest.raises(DoesNotFitError) as failed:
        simulation.ask(words(2_000))

    assert set(failed.value.needs) == {"base_prompt", "tools", "question"}
    assert failed.value.budget == 688
    assert failed.value.needs["question"] == simulation.rows[-1].tokens
    assert "question" in str(failed.value)


def test_ctx_13_growing_only_the_tools_or_only_the_prompt_raises_the_estimate():
    """CTX-13."""
    used = []
    for change in ({}, {"tools": (TOOL,)}, {"tools": (TOOL, READ_THREAD)}, {"system": "Be brief. " * 30}):
        used.append(Simulation(**change).ask("Hello").view.allocation.used)

    assert used[0] < used[1] < used[2]
    assert used[3] > used[0]


def test_ctx_26_a_question_that_fits_alone_is_sent_without_optional_evidence():
    """CTX-26."""
    simulation = filled(60, window=2_000)
    budget = simulation.sent[-1].view.allocation.budget

    sent = simulation.ask(words(budget - 60, "q"))

    assert sent.view.allocation.used <= budget
    assert sent.view.messages[-1].content.startswith("q q q")


def test_recall_is_sent_only_within_its_share_and_best_first():
    """CTX-04: what does not fit gives way to history, and the rest stands in the order of the transcript."""
    simulation = filled(60)
    simulation.passages = tuple(
        Passage(turn=n, seqs=(n,), text=f"[turn {n}] {words(100)}", score=score, tokens=120)
        for n, score in (
            (1, 0.2),
            (2, 1.0),
            (3, 0.9),
            (4, 0.8),
            (5, 0.7),
            (6, 0.6),
            (7, 0.5),
            (8, 0.4),
            (9, 0.3),
        )
    )

    sent = simulation.ask("And now?")

    assert [passage.turn for passage in sent.view.recalled] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert grants(sent)["recall"].action == "shrunk"
    assert sent.view.repaired is None


def test_the_pointer_names_a_tool_only_to_a_model_that_has_it():
    """CMP-21, known failure 15: every pointer in a prompt resolves."""
    without, having = filled(60), filled(60, tools=(READ_THREAD,))

    assert "read_thread" not in without.send().view.messages[1].content
    assert 'read_thread(conversation_id="current"' in having.send().view.messages[1].content


def test_strict_roles_alternate_and_lose_no_word():
    """INV-3: a template that insists on alternation accepts the request."""
    simulation = filled(60, strict_roles=True)
    simulation.passages = (Passage(turn=2, seqs=(3,), text="old words", score=1.0, tokens=4),)

    sent = simulation.ask("And now?")

    roles = [message.role for message in sent.view.messages]
    assert roles[0] == "system"
    assert all(left != right for left, right in itertools.pairwise(roles))
    assert sent.view.messages[-1].content.endswith(f"old words\n\n{RECALL_END}\n\nAnd now?")
    assert sent.view.messages[1].content.startswith(CONTEXT_LABEL)


def test_ctx_30_breakpoints_only_where_the_profile_asks_for_them():
    """CTX-30: behind the last stable system block and behind the message with the digest."""
    simulation = filled(60)
    snapshot = simulation.sent[-1].snapshot
    from dataclasses import replace

    from conversations.context.assemble import assemble_view

    explicit = replace(snapshot, model=replace(snapshot.model, explicit_cache=True))

    assert assemble_view(snapshot=snapshot, counter=COUNTER).breakpoints == ()
    assert assemble_view(snapshot=explicit, counter=COUNTER).breakpoints == (0, 1)


def test_the_predicted_cache_is_all_but_the_tail_and_the_new_words():
    simulation = filled(3)

    sent = simulation.ask("Go on.")

    allocation = sent.view.allocation
    assert allocation.predicted_cached == allocation.used - grants(sent)["question"].granted
    assert simulation.sent[0].view.allocation.predicted_cached is None


def test_after_an_epoch_change_only_the_fixed_part_is_predicted_to_be_cached():
    simulation = filled(60)
    cut = next(sent for sent in simulation.sent if sent.snapshot.epoch.number == 2)

    assert cut.view.allocation.predicted_cached == grants(cut)["base_prompt"].granted


def test_calibration_scales_every_figure_and_the_rows_still_add_up():
    plain, scaled = filled(5), filled(5, calibration=1.7)

    one, other = plain.ask("Go on.").view.allocation, scaled.ask("Go on.").view.allocation

    assert other.used == round(one.used * 1.7)
    assert sum(grant.granted for grant in other.grants) == other.used


def test_ctx_32_messages_of_a_cut_conversation_have_their_fates():
    """CTX-32, CTX-09: verbatim in view, in a segment before the cut, recalled and quoted where they were."""
    simulation = filled(60)
    simulation.passages = (Passage(turn=2, seqs=(3, 4), text="[turn 2] old", score=1.0, tokens=9),)
    sent = simulation.ask("And now?")

    fates = trace_fates(record=sent.record)

    cut = sent.snapshot.epoch.cut_seq
    by_seq = {seq: f.fates for f in fates for seq in range(f.from_seq, f.through_seq + 1)}
    assert by_seq[3] == ("recalled", "in_segment")
    assert by_seq[cut] in (("in_segment",), ("in_ledger", "in_segment"))
    assert by_seq[cut + 1] == ("verbatim",)
    assert sent.view.allocation.dropped_turns == cut // 2


def test_ctx_25_a_tool_exchange_at_the_cut_is_never_split():
    """CTX-25, known failures 1 and 2: a batch of eight parallel calls that straddles the cut goes or stays whole."""
    for size in range(20, 200, 12):
        simulation = Simulation(window=2_500)
        for n in range(12):
            simulation.ask(f"Question {n}")
            calls = tuple(ToolCall(id=f"c{n}-{k}", name="look_up", arguments="{}") for k in range(8))
            simulation.reply(
                ("assistant", "", {"tool_calls": calls}),
                *(("tool", words(size // 8), {"tool_call_id": call.id}) for call in calls),
                ("assistant", words(size), {}),
            )

        sent = simulation.ask("And now?")

        kept = [item.message for item in sent.view.history]
        assert len([m for m in kept if m.role == "tool"]) == 8 * len([m for m in kept if m.tool_calls])
        assert sent.view.repaired is None


def test_one_giant_turn_keeps_its_end_from_an_assistant_message_on():
    """CMP-12: the boundary inside an oversized turn is where no kept call is unanswered."""
    simulation = Simulation(window=8_192)
    simulation.ask("Do it all.")
    rounds = []
    for n in range(12):
        rounds.append(
            (
                "assistant",
                f"Round {n}.",
                {"tool_calls": (ToolCall(id=f"r{n}", name="look_up", arguments="{}"),)},
            )
        )
        rounds.append(("tool", words(600, f"r{n}"), {"tool_call_id": f"r{n}"}))
    simulation.reply(*rounds, ("assistant", "All done.", {}))

    sent = simulation.ask("And?")

    first = sent.view.history[0].message
    assert first.role == "assistant"
    assert sent.view.history[-1].message.content == "All done."
    assert sent.snapshot.epoch.covered_seq == first.seq - 1


def test_known_failure_25_two_assemblies_are_byte_for_byte_the_same():
    simulation = filled(60)

    assert simulation.send().view.request_hash == simulation.send().view.request_hash


@pytest.mark.parametrize("window", [1_500, 8_192, 32_768])
def test_one_passage_as_large_as_recall_may_be_is_sent(window):
    """Passages merge with their neighbours: the best one often fills all the room there is."""
    simulation = filled(200, window=window)
    most = derive_recall_tokens(snapshot=simulation.sent[-1].snapshot, counter=COUNTER)
    simulation.passages = (Passage(turn=1, seqs=(1, 2, 3), text="p" * (3 * most), score=1.0, tokens=most),)

    sent = simulation.ask("And now?")

    assert sent.view.recalled == simulation.passages
    assert grants(sent)["recall"].action == "full"


def test_constraints_that_are_too_long_are_shortened_before_one_is_left_out():
    """STA-14: six long ones in a small window: whole, two would fit; shortened, four do, and the allocation says so."""
    simulation = Simulation(window=8_192)
    for n in range(6):
        simulation.turn(f"You must never forget rule {n}: {words(60, f'because{n}')}", "Understood.")
    while (
        not (sent := simulation.turn(f"More. {words(60)}", f"Yes. {words(60)}")).snapshot.epoch.cut_seq > 12
    ):
        pass

    block = next(block for block in sent.snapshot.epoch.blocks if block.key == "pinned_constraints")
    shown = [n for n in range(6) if f"rule {n}" in block.content]
    assert shown == [2, 3, 4, 5]
    assert block.action == "shrunk"
    assert block.asked > block.tokens


def test_a_small_window_keeps_a_digest_with_its_identifiers():
    """INV-1: however many segments there are, the digest has room for headings and names rather than for nothing."""
    simulation = Simulation(window=1_900)
    simulation.turn("Please note invoice INV-7741-QX over 48,317.25 CHF.", "Noted.")
    for n in range(80):
        simulation.turn(f"Question {n}. {words(20)}", f"Answer {n}. {words(30)}")

    sent = simulation.ask("And now?")

    blocks = {block.key: block for block in sent.snapshot.epoch.blocks}
    assert blocks["digest"].content
    assert "overflow_notice" not in blocks
    assert "Messages 1 to " in blocks["digest"].content
    assert "\nuser:\n" not in blocks["digest"].content
