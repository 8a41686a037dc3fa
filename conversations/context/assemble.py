"""The view of one model call, from a snapshot. Pure: the same snapshot gives the same bytes.

The order of what is sent is by stability, not by priority: the system message, the epoch's frozen blocks, the history,
the volatile blocks, the question. So every request extends the one before it up to its volatile tail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agentx.llm.messages import ChatMessage, SystemMessage, ToolSchema, UserMessage
from conversations.context.budget import derive_budget
from conversations.context.exchanges import find_broken_pair
from conversations.context.forms import Shaped, group_turns, shape_messages
from conversations.context.layout import FRAME_TOKENS, SEPARATOR_TOKENS, Layout, lay_out, shape_history
from conversations.context.render import (
    hash_request,
    merge_same_roles,
    render_context,
    render_recall,
)
from conversations.context.types import (
    Action,
    Allocation,
    Grant,
    Passage,
    Snapshot,
    TokenCounter,
)


@dataclass(frozen=True, slots=True)
class View:
    """The exact messages of one model call and how they came to be chosen.

    ``breakpoints``: indexes of the messages after which a provider with explicit caching is to keep the prefix.
    ``history``: what stands between the frozen blocks and the tail. ``recalled``: the passages that were sent.
    ``request_hash``: of messages and tools. ``excerpt``: the limit of tool results in this turn, None when none had to
    give way. ``repaired``: why the view had to be cut mechanically, None when it did not.
    """

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSchema, ...]
    breakpoints: tuple[int, ...]
    allocation: Allocation
    history: tuple[Shaped, ...]
    recalled: tuple[Passage, ...]
    tail: str
    excerpt: int | None
    request_hash: str
    repaired: str | None = None


def assemble_view(*, snapshot: Snapshot, counter: TokenCounter) -> View:
    """The view within the snapshot's epoch. Raises ``DoesNotFitError`` when what may not be cut exceeds the budget.

    The epoch is expected to have room for the history (see ``plan_epoch``). Should it not, or should an exchange be
    broken, whole turns are left out from the oldest on, and ``repaired`` says why: an invalid request is never sent.
    """
    layout = lay_out(snapshot=snapshot, counter=counter)
    shaped = layout.shaped
    room = layout.history + layout.tail
    repaired = find_broken_pair([item.message for item in shaped])
    if repaired is None and sum(item.tokens for item in shaped) > room:
        repaired = "history outgrew its room within an epoch"
    if repaired is not None:
        shaped = _newest_turns(shaped, room=layout.history)
    history = sum(item.tokens for item in shaped)
    recalled = _choose_passages(
        snapshot.passages, room=min(layout.reserves.recall + FRAME_TOKENS, room - history)
    )
    tail = render_recall(recalled)
    messages = _emit(snapshot, shaped, layout.current.shaped, tail)
    return View(
        messages=messages,
        tools=snapshot.tools,
        breakpoints=_breakpoints(snapshot),
        allocation=_as_allocation(snapshot, layout, shaped, recalled, counter),
        history=shaped,
        recalled=recalled,
        tail=tail,
        excerpt=layout.current.excerpt,
        request_hash=hash_request(messages=messages, tools=snapshot.tools),
        repaired=repaired,
    )


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """What would be sent if nothing had to leave the view. ``tokens`` and ``budget`` are estimates before calibration."""

    messages: tuple[ChatMessage, ...]
    tokens: int
    budget: int


def draft_request(*, snapshot: Snapshot, counter: TokenCounter) -> DraftRequest:
    """The whole request of the snapshot's epoch, whatever its size, for an exact count before a cut is decided."""
    shaped = shape_history(snapshot=snapshot, counter=counter)
    current = shape_messages(messages=snapshot.current, settled_seq=0, counter=counter)
    messages = _emit(snapshot, shaped, current, "")
    ahead = [
        SystemMessage(content=snapshot.system_prompt),
        UserMessage(content=render_context(snapshot.epoch.blocks)),
    ]
    tokens = sum(counter.count_message(message) for message in ahead if message.content)
    tokens += sum(item.tokens for item in (*shaped, *current)) + counter.count_tools(snapshot.tools)
    budget = derive_budget(window=snapshot.model.window, rules=snapshot.rules).tokens
    return DraftRequest(messages, tokens, budget)


def _newest_turns(shaped: Sequence[Shaped], *, room: int) -> tuple[Shaped, ...]:
    """Mechanical truncation: the newest whole turns that fit and whose exchanges are whole."""
    kept: list[Shaped] = []
    for turn in reversed(group_turns(shaped)):
        tokens = sum(item.tokens for item in (*turn, *kept))
        if tokens > room or find_broken_pair([item.message for item in turn]) is not None:
            break
        kept[:0] = turn
    return tuple(kept)


def _choose_passages(passages: Sequence[Passage], *, room: int) -> tuple[Passage, ...]:
    """The best passages that fit together, in the order of the transcript."""
    left = room - FRAME_TOKENS
    chosen: list[Passage] = []
    for passage in sorted(passages, key=lambda passage: -passage.score):
        if passage.tokens + SEPARATOR_TOKENS <= left:
            chosen.append(passage)
            left -= passage.tokens + SEPARATOR_TOKENS
    return tuple(sorted(chosen, key=lambda passage: passage.seqs))


def _recall_tokens(passages: Sequence[Passage]) -> int:
    """What the tail costs with these passages in it."""
    return sum(passage.tokens + SEPARATOR_TOKENS for passage in passages) + FRAME_TOKENS if passages else 0


def _emit(
    snapshot: Snapshot, history: Sequence[Shaped], current: Sequence[Shaped], tail: str
) -> tuple[ChatMessage, ...]:
    """The messages in order."""
    messages: list[ChatMessage] = [SystemMessage(content=snapshot.system_prompt)]
    if context := render_context(snapshot.epoch.blocks):
        messages.append(UserMessage(content=context))
    messages += [item.value for item in history]
    if tail:
        messages.append(UserMessage(content=tail))
    messages += [item.value for item in current]
    return merge_same_roles(messages) if snapshot.model.strict_roles else tuple(messages)


def _breakpoints(snapshot: Snapshot) -> tuple[int, ...]:
    """The indexes of the system message and of the one with the digest, where the provider wants to be told."""
    if not snapshot.model.explicit_cache:
        return ()
    return (0, 1) if render_context(snapshot.epoch.blocks) else (0,)


def _as_allocation(
    snapshot: Snapshot,
    layout: Layout,
    shaped: Sequence[Shaped],
    recalled: Sequence[Passage],
    counter: TokenCounter,
) -> Allocation:
    """The ledger of this call in calibrated tokens. They are rounded together, so that their sum is exactly the
    estimate."""
    rows: list[Grant] = []
    ratio, running = snapshot.model.calibration, 0
    for row in _rows(snapshot, layout, shaped, recalled):
        before = round(running * ratio)
        running += row.granted
        rows.append(replace(row, asked=round(row.asked * ratio), granted=round(running * ratio) - before))
    return Allocation(
        window=layout.budget.window,
        budget=layout.budget.tokens,
        used=round(running * ratio),
        response=layout.budget.response,
        tokenizer=counter.name,
        grants=tuple(rows),
        dropped_turns=_count_dropped(snapshot, shaped),
        first_seq=shaped[0].message.seq if shaped else snapshot.question.seq,
        epoch=snapshot.epoch.number,
        calibration=ratio,
        predicted_cached=_predict_cached(snapshot, layout, shaped),
    )


def _rows(
    snapshot: Snapshot, layout: Layout, shaped: Sequence[Shaped], recalled: Sequence[Passage]
) -> Iterator[Grant]:
    """What each block would have needed whole and what it has, in the order of emission, before calibration.

    Nothing is decided here: frozen blocks were granted when their epoch began, and what history leaves is recall's.
    """
    yield _whole("base_prompt", layout.system)
    if snapshot.tools:
        yield _whole("tools", layout.tools)
    for block in snapshot.epoch.blocks:
        yield Grant(key=block.key, asked=block.asked, granted=block.tokens, action=block.action)
    if layout.frozen:
        yield _whole("context_frame", FRAME_TOKENS)
    history = sum(item.tokens for item in shaped)
    stored = sum(message.tokens for message in snapshot.history)
    whole = stored <= history and all(item.form == "verbatim" for item in shaped)
    yield Grant(
        key="history", asked=max(stored, history), granted=history, action="full" if whole else "shrunk"
    )
    if snapshot.passages:
        asked, granted = _recall_tokens(snapshot.passages), _recall_tokens(recalled)
        action: Action = "full" if granted >= asked else "shrunk" if granted else "dropped"
        yield Grant(key="recall", asked=asked, granted=granted, action=action)
    yield _whole("question", layout.current.tokens)


def _whole(key: str, tokens: int) -> Grant:
    return Grant(key=key, asked=tokens, granted=tokens, action="full")


def _count_dropped(snapshot: Snapshot, shaped: Sequence[Shaped]) -> int:
    """Turns that are not in view: those before the cut, by their numbers, and loaded ones that had to go."""
    loaded = {message.turn for message in snapshot.history}
    first = min(loaded, default=snapshot.question.turn)
    before = first - 1 if snapshot.epoch.cut_seq or snapshot.unloaded else 0
    return before + len(loaded - {item.message.turn for item in shaped})


def _predict_cached(snapshot: Snapshot, layout: Layout, shaped: Sequence[Shaped]) -> int | None:
    """Tokens a provider that caches prefixes is expected to have, by the last request; None for the first.

    In the same epoch: all up to the last request's history, and its question and answer too if nothing stood between.
    After an epoch change: the system message and tools, unless they were what changed.
    """
    previous, ratio = snapshot.previous, snapshot.model.calibration
    if previous is None:
        return None
    if previous.epoch != snapshot.epoch.number:
        changed = snapshot.epoch.reason in ("model", "prompt", "tools")
        return 0 if changed else round(layout.fixed * ratio)
    reach = previous.through_seq if previous.tail else snapshot.question.seq - 1
    same = sum(item.tokens for item in shaped if item.message.seq <= reach)
    return round((layout.fixed + layout.frozen + same) * ratio)
