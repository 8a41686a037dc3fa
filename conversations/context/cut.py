"""Where the view begins: between two watermarks, at the boundary of a whole turn where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from conversations.context.forms import Shaped, group_turns

# Rows after the cut above which it moves, however small they are: a view reads at most 400 (see the snapshot).
MOST_MESSAGES = 300


@dataclass(frozen=True, slots=True)
class Cut:
    """``kept``: what stays in the view. ``first``: its first message, None when nothing stays."""

    kept: tuple[Shaped, ...]
    tokens: int
    evicted: int

    @property
    def first(self) -> Shaped | None:
        return self.kept[0] if self.kept else None


def find_cut(*, shaped: Sequence[Shaped], target: int, room: int) -> Cut:
    """The least that has to go so that the rest has at most ``target`` tokens and half of ``MOST_MESSAGES``.

    The newest turn stays whole if it fits within ``room``, even above the target: a turn that has just been written is
    what the next question is most likely about. If it does not fit, it is entered at the earliest assistant message
    from which the rest does, where no call of the kept part is unanswered.
    """
    turns = group_turns(shaped)
    kept: list[Shaped] = []
    tokens = 0
    for turn in reversed(turns):
        size = sum(item.tokens for item in turn)
        newest = not kept
        limit = room if newest else target
        if tokens + size > limit or len(kept) + len(turn) > MOST_MESSAGES // 2:
            break
        kept[:0] = turn
        tokens += size
    if not kept and turns:
        kept = list(_enter_turn(turns[-1], room=min(target, room)))
        tokens = sum(item.tokens for item in kept)
    return Cut(kept=tuple(kept), tokens=tokens, evicted=len(shaped) - len(kept))


def _enter_turn(turn: Sequence[Shaped], *, room: int) -> Sequence[Shaped]:
    """The longest end of one turn that begins with an assistant message and fits; empty when none does.

    Results stand directly behind their calls, so whatever begins with an assistant message holds whole exchanges only.
    """
    for index, item in enumerate(turn):
        if index and item.message.role == "assistant":
            rest = turn[index:]
            if sum(part.tokens for part in rest) <= room and len(rest) <= MOST_MESSAGES // 2:
                return rest
    return ()
