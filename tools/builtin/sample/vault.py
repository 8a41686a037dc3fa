"""A made-up vault of notes, the same on every machine: markdown with frontmatter, one of them a thousand lines long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

LONG_NOTE = "journal/field-log.md"
LONG_NOTE_LINES = 1_001


@dataclass(frozen=True, slots=True)
class Note:
    """``lines``: of the text below the frontmatter; line numbers count from 1 there."""

    path: str
    frontmatter: Mapping[str, str]
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


_NOTES: dict[str, tuple[dict[str, str], str]] = {
    "projects/greenhouse.md": (
        {"title": "Greenhouse", "created": "2025-02-11", "status": "active"},
        """# Greenhouse

## Frame
Larch beams, 60 by 80 mm, cut to 2.40 m. Fourteen are needed, twelve have come.

## Glazing
Twin-wall sheets of 10 mm. The supplier's offer is 1,486.50, valid until 30 April.

## Watering
Two barrels of 200 litres and a drip line along the south bed.

## Open
- Who lends us the post-hole auger?
- Foundations before the frost ends in mid March.""",
    ),
    "recipes/rye-bread.md": (
        {"title": "Rye bread", "created": "2024-11-03"},
        """# Rye bread
Starter: 150 g rye flour, 150 g water, one spoon of sourdough, 12 hours.
Dough: 450 g rye flour, 320 g water, 12 g salt, 2 hours at 26 degrees.
Bake 15 minutes at 250 degrees, then 45 minutes at 190.""",
    ),
    "people/landlord.md": (
        {"title": "Landlord", "created": "2025-01-20"},
        """# Lindenhof Apartments
Rent is due on the first. Notice is three months to the end of a quarter.
The heating was serviced on 2025-10-08; the next time is due in October 2027.""",
    ),
}


def _field_log() -> str:
    birds = ("heron", "kingfisher", "reed warbler", "grebe", "lapwing", "marsh harrier", "teal")
    lines = ["# Field log"]
    for number in range(2, LONG_NOTE_LINES + 1):
        bird = birds[number * number % len(birds)]
        count, hour = 1 + number * 7 % 23, 5 + number % 14
        lines.append(
            f"Sighting {number:04d}, {hour:02d}:{number * 17 % 60:02d}: {count} × {bird}, plot {number % 31 + 1}."
        )
    return "\n".join(lines)


@cache
def notes() -> Mapping[str, Note]:
    """Every note by its path, in order of the paths."""
    texts = {**_NOTES, LONG_NOTE: ({"title": "Field log", "created": "2025-03-01"}, _field_log())}
    return MappingProxyType(
        {
            path: Note(path, MappingProxyType(front), tuple(text.split("\n")))
            for path, (front, text) in sorted(texts.items())
        }
    )
