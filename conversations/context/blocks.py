"""Blocks of a prompt and the rule that shares the budget among them.

Mandatory blocks come first and whole. The others follow by priority: whole if they fit, shrunk if at least their minimum
remains, else dropped. History takes part as a block of its own. Who is granted room says nothing about where a block
stands: the emission order is by stability (see ``conversations.context.assemble``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conversations.context.types import Action, Stability, TokenCounter

# Every block there is, or will be, with its place in the queue for room. Equal numbers: registration order decides.
PRIORITIES = {
    "research": 96,
    "workflow_supervisor": 95,
    "manager_charter": 92,
    "thinking_directive": 92,
    "project_identity": 90,
    "participants": 90,
    "project_instructions": 88,
    "project_manifest": 85,
    "delegation_roster": 85,
    "checkpoints": 80,
    "pinned_constraints": 78,
    "scratchpad": 75,
    "memory_core": 70,
    "conversation_state": 68,
    "digest": 65,
    "skills_index": 62,
    "conversation_images": 60,
    "history_digest": 60,
    "overflow_notice": 58,
    "history": 50,
    "recall": 48,
    "evidence_ledger": 45,
    "knowledge": 40,
    "memory_recall": 30,
    "thread_leads": 28,
    "token_budget": 10,
}

Shrink = Callable[[str, int, TokenCounter], str]


@dataclass(frozen=True, slots=True)
class Block:
    """One named piece of prompt. ``tokens``: the estimate of ``content``.

    ``min_tokens``: the least a shrunk form is worth sending with. ``max_tokens``: a cap below ``tokens``, or None.
    """

    key: str
    content: str
    tokens: int
    stability: Stability
    priority: int = 0
    min_tokens: int = 0
    max_tokens: int | None = None
    shrink: Shrink | None = None
    mandatory: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """A block with what it got: ``content`` is empty when it was dropped."""

    block: Block
    content: str
    tokens: int
    action: Action


def make_block(
    *,
    key: str,
    content: str,
    counter: TokenCounter,
    stability: Stability,
    min_tokens: int = 0,
    max_tokens: int | None = None,
    shrink: Shrink | None = None,
) -> Block:
    """An optional block with the priority of its key. Raises ``KeyError`` for a key without one."""
    return Block(
        key=key,
        content=content,
        tokens=counter.count_text(content),
        stability=stability,
        priority=PRIORITIES[key],
        min_tokens=min_tokens,
        max_tokens=max_tokens,
        shrink=shrink,
    )


def allocate_blocks(*, blocks: Sequence[Block], budget: int, counter: TokenCounter) -> tuple[Granted, ...]:
    """What each block gets of ``budget`` tokens, in the order in which the blocks were given.

    Mandatory blocks are granted even beyond the budget: whether they fit is for the caller to check first.
    """
    granted: dict[int, Granted] = {}
    left = budget
    for index, block in enumerate(blocks):
        if block.mandatory:
            granted[index] = Granted(block, block.content, block.tokens, "full")
            left -= block.tokens
    queue = [index for index, block in enumerate(blocks) if not block.mandatory]
    for index in sorted(queue, key=lambda index: -blocks[index].priority):
        granted[index] = _grant(blocks[index], room=max(0, left), counter=counter)
        left -= granted[index].tokens
    return tuple(granted[index] for index in range(len(blocks)))


def _grant(block: Block, *, room: int, counter: TokenCounter) -> Granted:
    most = room if block.max_tokens is None else min(room, block.max_tokens)
    if block.tokens <= most:
        return Granted(block, block.content, block.tokens, "full")
    if block.shrink is not None and most >= max(1, block.min_tokens):
        content = block.shrink(block.content, most, counter)
        tokens = counter.count_text(content)
        if content and tokens <= most:
            return Granted(block, content, tokens, "shrunk")
    return Granted(block, "", 0, "dropped")


def keep_tail(text: str, max_tokens: int, counter: TokenCounter) -> str:
    """The longest end of ``text`` that is found to have at most ``max_tokens`` tokens, measured again after each cut."""
    low, high = 0, len(text)
    while low < high:  # the smallest start whose rest fits
        middle = (low + high) // 2
        if counter.count_text(text[middle:]) <= max_tokens:
            high = middle
        else:
            low = middle + 1
    while low < len(text) and counter.count_text(text[low:]) > max_tokens:
        low += 1  # a tokenizer is not quite monotonic
    return text[low:]


def keep_head(text: str, max_tokens: int, counter: TokenCounter) -> str:
    """The longest beginning of ``text`` that is found to have at most ``max_tokens`` tokens."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if counter.count_text(text[:middle]) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    while low and counter.count_text(text[:low]) > max_tokens:
        low -= 1
    return text[:low]


def keep_newest_lines(text: str, max_tokens: int, counter: TokenCounter) -> str:
    """The last lines of ``text`` that fit together, whole; a last line that alone is too long keeps its tail."""
    lines = text.splitlines()
    kept: list[str] = []
    for line in reversed(lines):
        if counter.count_text("\n".join([line, *kept])) > max_tokens:
            break
        kept.insert(0, line)
    return "\n".join(kept) if kept else keep_tail(lines[-1] if lines else "", max_tokens, counter)


def keep_facts(text: str, max_tokens: int, counter: TokenCounter) -> str:
    """A bundle of memory reduced to its section of known facts: the lines from ``## Known facts`` to the next heading."""
    lines = text.splitlines()
    starts = [index for index, line in enumerate(lines) if line.strip().lower() == "## known facts"]
    if not starts:
        return keep_newest_lines(text, max_tokens, counter)
    end = next(
        (index for index in range(starts[0] + 1, len(lines)) if lines[index].startswith("## ")), len(lines)
    )
    kept = lines[starts[0] : end]
    while len(kept) > 1 and counter.count_text("\n".join(kept)) > max_tokens:
        kept.pop()
    text = "\n".join(kept)
    return text if counter.count_text(text) <= max_tokens else ""
