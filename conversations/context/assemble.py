"""The view of one model call, from a snapshot. Pure: the same snapshot gives the same bytes.

The order of what is sent is by stability, not by priority: the system message, the epoch's frozen blocks, the history,
the volatile blocks, the question. So every request extends the one before it up to its volatile tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentx.llm.messages import ChatMessage, SystemMessage, ToolSchema, UserMessage
from conversations.context.blocks import PRIORITIES, Block, Granted, allocate_blocks
from conversations.context.budget import derive_budget
from conversations.context.exchanges import find_broken_pair, keep_whole_exchanges, split_turns
from conversations.context.forms import Shaped, shape_messages
from conversations.context.layout import FRAME_TOKENS, SEPARATOR_TOKENS, Layout, lay_out
from conversations.context.render import (
    hash_request,
    merge_same_roles,
    render_context,
    render_recall,
)
from conversations.context.types import (
    Action,
    Allocation,
    FrozenBlock,
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
    sendable = keep_whole_exchanges(snapshot.history)
    shaped = shape_messages(messages=sendable, settled_seq=snapshot.epoch.settled_seq, counter=counter)
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
    granted = _allocate(snapshot, layout, shaped, recalled, tail, counter)
    messages, breakpoints = _emit(snapshot, layout, shaped, tail)
    return View(
        messages=messages,
        tools=snapshot.tools,
        breakpoints=breakpoints if snapshot.model.explicit_cache else (),
        allocation=_as_allocation(snapshot, layout, granted, shaped, counter),
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
    sendable = keep_whole_exchanges(snapshot.history)
    shaped = (
        *shape_messages(messages=sendable, settled_seq=snapshot.epoch.settled_seq, counter=counter),
        *shape_messages(messages=snapshot.current, settled_seq=0, counter=counter),
    )
    context = render_context(snapshot.epoch.blocks)
    head: list[ChatMessage] = [SystemMessage(content=snapshot.system_prompt)]
    head += [UserMessage(content=context)] if context else []
    tokens = sum(counter.count_message(message) for message in head)
    tokens += sum(item.tokens for item in shaped) + counter.count_tools(snapshot.tools)
    budget = derive_budget(window=snapshot.model.window, rules=snapshot.rules).tokens
    messages = (*head, *(item.value for item in shaped))
    return DraftRequest(
        merge_same_roles(messages) if snapshot.model.strict_roles else messages, tokens, budget
    )


def _newest_turns(shaped: Sequence[Shaped], *, room: int) -> tuple[Shaped, ...]:
    """Mechanical truncation: the newest whole turns that fit and whose exchanges are whole."""
    kept: list[Shaped] = []
    by_id = {item.message.id: item for item in shaped}
    for turn in reversed(split_turns([item.message for item in shaped])):
        items = [by_id[message.id] for message in turn]
        tokens = sum(item.tokens for item in (*items, *kept))
        if tokens > room or find_broken_pair(turn) is not None:
            break
        kept[:0] = items
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


def _allocate(
    snapshot: Snapshot,
    layout: Layout,
    shaped: Sequence[Shaped],
    recalled: Sequence[Passage],
    tail: str,
    counter: TokenCounter,
) -> tuple[Granted, ...]:
    """The ledger of this call, in the order of emission. Frozen blocks were granted when their epoch began."""
    history = sum(item.tokens for item in shaped)
    blocks = [
        _mandatory("base_prompt", layout.system),
        *([_mandatory("tools", layout.tools)] if snapshot.tools else []),
        *(_mandatory(block.key, block.tokens) for block in snapshot.epoch.blocks),
        *([_mandatory("context_frame", FRAME_TOKENS)] if layout.frozen else []),
        Block(
            key="history",
            content="",
            tokens=history,
            stability="history",
            priority=PRIORITIES["history"],
        ),
    ]
    if snapshot.passages:
        blocks.append(
            Block(
                key="recall",
                content=tail,
                tokens=_recall_tokens(recalled),
                stability="volatile",
                priority=PRIORITIES["recall"],
            )
        )
    blocks.append(_mandatory("question", layout.current.tokens))
    return allocate_blocks(blocks=blocks, budget=layout.total, counter=counter)


def _mandatory(key: str, tokens: int) -> Block:
    return Block(key=key, content="", tokens=tokens, stability="stable", mandatory=True)


def _emit(
    snapshot: Snapshot, layout: Layout, shaped: Sequence[Shaped], tail: str
) -> tuple[tuple[ChatMessage, ...], tuple[int, ...]]:
    """The messages in order, and the indexes of the last stable one and of the digest's."""
    messages: list[ChatMessage] = [SystemMessage(content=snapshot.system_prompt)]
    breakpoints = [0]
    context = render_context(snapshot.epoch.blocks)
    if context:
        messages.append(UserMessage(content=context))
        breakpoints.append(1)
    messages += [item.value for item in shaped]
    if tail:
        messages.append(UserMessage(content=tail))
    messages += [item.value for item in layout.current.shaped]
    if snapshot.model.strict_roles:
        return merge_same_roles(messages), tuple(breakpoints)
    return tuple(messages), tuple(breakpoints)


def _as_allocation(
    snapshot: Snapshot,
    layout: Layout,
    granted: Sequence[Granted],
    shaped: Sequence[Shaped],
    counter: TokenCounter,
) -> Allocation:
    """The grants in calibrated tokens. They are rounded together, so that their sum is exactly the estimate."""
    frozen = {block.key: block for block in snapshot.epoch.blocks}
    asked_history = sum(message.tokens for message in snapshot.history)
    passages = _recall_tokens(snapshot.passages)
    rows: list[Grant] = []
    ratio, running = snapshot.model.calibration, 0
    for item in granted:
        before = round(running * ratio)
        running += item.tokens
        asked, action = _asked(item, frozen, asked_history, passages, shaped)
        rows.append(
            Grant(
                key=item.block.key,
                asked=round(asked * ratio),
                granted=round(running * ratio) - before,
                action=action,
            )
        )
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


def _count_dropped(snapshot: Snapshot, shaped: Sequence[Shaped]) -> int:
    """Turns that are not in view: those before the cut, by their numbers, and loaded ones that had to go."""
    loaded = {message.turn for message in snapshot.history}
    first = min(loaded, default=snapshot.question.turn)
    before = first - 1 if snapshot.epoch.cut_seq or snapshot.unloaded else 0
    return before + len(loaded - {item.message.turn for item in shaped})


def _asked(
    item: Granted,
    frozen: dict[str, FrozenBlock],
    history: int,
    passages: int,
    shaped: Sequence[Shaped],
) -> tuple[int, Action]:
    """What the block would have needed whole, and what became of it."""
    key = item.block.key
    if key in frozen:
        return frozen[key].asked, frozen[key].action
    if key == "history":
        whole = all(item.form == "verbatim" for item in shaped)
        return max(history, item.tokens), "full" if whole and history <= item.tokens else "shrunk"
    if key == "recall":
        asked = passages
        return asked, "full" if item.tokens >= asked else "shrunk" if item.tokens else "dropped"
    return item.block.tokens, item.action


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
