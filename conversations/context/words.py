"""Words as the search index knows them: one tokenizer for what is stored and for what is asked.

The database's own dictionaries know one language each and split identifiers their own way. Here every script is handled
by the same few rules, and both sides of a comparison go through them, so a rule can only make two spellings meet.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

# Longer words (hashes, data) are told apart by their beginning; PostgreSQL's own limit is 2,046 bytes.
LONGEST_WORD = 48
# Positions that a tsvector can hold (PostgreSQL: text search limitations).
LAST_POSITION = 16_383

# Marks over and under letters in Latin, Greek, Cyrillic, Hebrew and Arabic: people leave them out when they search.
_ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670]")
# Scripts that put no spaces between words (and Korean, which hangs particles on them): Thai, Lao, Burmese, Khmer, kana,
# Han, Hangul. Two neighbouring characters are the closest thing to a word that needs no dictionary.
_UNSPACED_CLASS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
# Letters and digits, and the vowel signs of Indic scripts, which Python does not count among them.
_LETTER = f"(?:(?![{_UNSPACED_CLASS}])[^\\W_]|[\u0900-\u0963\u0966-\u0dff])"
# A run of an unspaced script, or a word with what may stand inside an identifier, an address, a path or a version.
TOKENS = re.compile(
    f"(?P<unspaced>[{_UNSPACED_CLASS}]+)|(?P<word>{_LETTER}+(?:[-_.:/@+&#'’,]{{1,3}}{_LETTER}+)*)"
)
_PARTS = re.compile(f"{_LETTER}+")
_POSSESSIVE = re.compile("['’]s(?![^\\W_])")
_HAN = re.compile("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_LATIN_WORD = re.compile("[a-z]+")
_VOWEL = re.compile("[aeiouy]")
_DROPS_E = re.compile("[^aeiou][aeiou][^aeiouwxy]")


@dataclass(frozen=True, slots=True)
class Word:
    """A lexeme at a place in a text; places count from 1, and parts of one identifier follow each other."""

    lexeme: str
    position: int


def index_words(text: str) -> list[Word]:
    """The words of a text in order. Identifiers come whole and in parts, Han characters alone and in pairs."""
    return _split(text, single_characters=True)


def query_words(text: str) -> list[Word]:
    """The words to look for: as :func:`index_words`, but single characters only where there is no pair."""
    return _split(text, single_characters=False)


def fold_text(text: str) -> str:
    """Lower case, one form of every character, no accents."""
    plain = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", plain))


def fold_word(word: str) -> str:
    """A word without the commonest English endings, so that "paintings", "painted" and "painting" meet.

    Only words of plain Latin letters change. Both sides of a comparison do, so in other languages a word still meets
    itself, and now and then a relative.
    """
    if len(word) < 4 or not _LATIN_WORD.fullmatch(word):
        return word[:LONGEST_WORD]
    return _fold_ending(_fold_plural(word))[:LONGEST_WORD]


def _fold_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _fold_ending(word: str) -> str:
    for ending in ("ing", "ed"):
        stem = word.removesuffix(ending)
        if stem == word or len(stem) < 3 or not _VOWEL.search(stem):
            continue
        if len(stem) == 3:
            # "hiking" must meet "hike", whose own "e" stays: without it "care" would be "car".
            return stem + "e" if _DROPS_E.fullmatch(stem) else stem
        doubled = stem[-1] == stem[-2] and stem[-1] not in "lsz"
        return stem[:-1] if doubled else stem
    return word.removesuffix("e") if len(word) >= 5 else word


def _split(text: str, *, single_characters: bool) -> list[Word]:
    words: list[Word] = []
    position = 0
    for found in TOKENS.finditer(_POSSESSIVE.sub("", _THOUSANDS.sub("", fold_text(text)))):
        if position >= LAST_POSITION:
            break
        if found.lastgroup == "unspaced":
            lexemes = _pairs(found[0], single_characters=single_characters)
        else:
            lexemes = _whole_and_parts(found[0])
        step = 0
        for lexeme, offset in lexemes:
            words.append(Word(lexeme, min(position + 1 + offset, LAST_POSITION)))
            step = max(step, offset + 1)
        position += step
    return words


def _pairs(run: str, *, single_characters: bool) -> list[tuple[str, int]]:
    if len(run) == 1:
        return [(run, 0)]
    pairs = [(run[at : at + 2], at) for at in range(len(run) - 1)]
    if single_characters:
        pairs += [(character, at) for at, character in enumerate(run) if _HAN.match(character)]
    return pairs


def _whole_and_parts(token: str) -> list[tuple[str, int]]:
    parts = _PARTS.findall(token)
    found = [(fold_word(part), at) for at, part in enumerate(parts)]
    # An apostrophe joins words (l'eau, don't), everything else makes an identifier.
    if len(parts) > 1 and not re.search("['’]", token):
        found.append((token[:LONGEST_WORD], 0))
    return found


# Weights of a tsvector by how often a lexeme occurs; PostgreSQL has four letters, and D is what an unmarked one has.
_OFTEN, _REPEATED = 4, 2


def render_lexemes(words: Sequence[Word]) -> str:
    """The words as the text form of a tsvector: ``'lexeme':1A,7A 'other':2``.

    All places of a lexeme bear one weight: A for four and more of them, B for two or three, none (D) for one.
    """
    places: dict[str, list[int]] = {}
    for word in words:
        places.setdefault(word.lexeme, []).append(word.position)
    rendered: list[str] = []
    for lexeme, positions in places.items():
        weight = "A" if len(positions) >= _OFTEN else "B" if len(positions) >= _REPEATED else ""
        # PostgreSQL keeps at most 256 places of a lexeme.
        rendered.append(f"{quote_lexeme(lexeme)}:" + ",".join(f"{at}{weight}" for at in positions[:255]))
    return " ".join(rendered)


def quote_lexeme(lexeme: str) -> str:
    """A lexeme as tsvector and tsquery read it."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
