"""The folding of text: words that a reader takes for the same are equal in the index, in queries, filters and snippets.

Folding ignores case, invisible characters, and the marks of Latin, Greek, Arabic and Hebrew letters. It keeps marks that
distinguish words, such as those of Indic scripts and of kana. Folded words consist of ASCII letters and digits and of any other
characters. All other ASCII characters separate words, as in the tokenizer `ascii` of FTS5. Symbols such as € and 🌱 are words.

A word ends where a script without spaces between words begins or ends (GPT in 用GPT写), and around a version (3.11 in v3.11).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate, chain
from unicodedata import category, combining, name, normalize

_MARKED = ("LATIN", "GREEK", "ARABIC", "HEBREW")
"""Scripts with marks that are ignored."""
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff"
    "\u20d0-\u20ff\ufe20-\ufe2f"
)
_UNSEEN = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
"""Default-ignorable characters that are not of the category Cf: https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point"""
_SOFT_BREAK = "\u00ad\n"
"""A word divided at the end of a line."""
_RUN = re.compile(r"(?:[\x00-\x7f]?[^\x00-\x7f]+\n?)+")
"""Characters that are not ASCII, with those around that may be folded with them."""
_IGNORED = re.compile(f"[{_MARKS}{_UNSEEN}\u0640]")
"""The last one is the tatweel, which lengthens an Arabic word."""
_VARIANT = re.compile(r"LATIN SMALL LETTER ([A-Z]) WITH ")
"""Letters such as ø and ł, which Unicode does not decompose."""
_INSTEAD = {"æ": "ae", "œ": "oe", "ð": "d", "þ": "th", "ı": "i", "ȷ": "j", "ё": "е"}
_INSTEAD |= {"ʻ": "'", "ʼ": "'", "\u2044": "/", "\u2212": "-"}
_SYMBOLS = frozenset({"So", "Sc", "Sm", "Co", "Cn"})
_DRAWN = range(0x2500, 0x25A0)
"""Lines and blocks, of which tables and bars are drawn."""

_BREAKS = r"\u0000-/:-@\[-`{-\u007f"
_BREAK = re.compile(f"[{_BREAKS}]+")
_LETTER = f"[^{_BREAKS}]"
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""The characters of scripts without spaces between words."""
_LEADS = bytes([0xE0, 0xE1, *range(0xE3, 0xEE), 0xEF, *range(0xF0, 0xF5)])
"""First bytes of characters of these scripts in UTF-8. Few characters of other scripts share them."""
_SPACED = f"[^{_BREAKS}{UNSPACED}]"
_SPACED_RUN = re.compile(f"{_SPACED}+")
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)+")
_FRACTION = re.compile(r"\.(?<=[0-9]\.)[0-9]")
"""Is in each version. Begins with a literal, which is found in 1 µs per page; a class of characters takes 25."""
_SIGN = re.compile(rf"(?<=[a-z])\+\+|(?<=[cf])(?<!{_SPACED}[cf])#|(?<!{_SPACED})(?<!\.)\.(?=net(?!{_SPACED}))")
_SIGN_WORDS = {"++": " ＋ ", "#": " ＃ ", ".": " ． "}
"""ASCII characters that distinguish C++, C# and .NET from other words: they are words too."""


class _FoldedLetters(dict[int, str]):
    """Map of characters to their folded forms."""

    def __missing__(self, code: int) -> str:
        self[code] = _folded(chr(code))
        return self[code]


_FOLDED = _FoldedLetters({code: chr(code).lower() for code in range(128)})
_UNCHANGED = {chr(code) for code in range(128)}
"""Letters in lower case that are known to be folded already."""


def fold(text: str) -> str:
    """Return the form of a text for the index and for comparisons."""
    folded = _fold_letters(text)
    return "".join(new for *_, new in _pieces_of_words(folded, edits)) if (edits := _edits(folded)) else folded


def plain_words(text: str) -> str:
    """Return the folded words of a text, separated by single spaces."""
    return " ".join(_BREAK.split(fold(text))).strip()


class Folded:
    """A text as `fold` returns it, and the origin of its characters."""

    def __init__(self, text: str) -> None:
        letters = _Changed((*piece, _fold_letters(text[piece[0] : piece[1]])) for piece in _pieces(text))
        words = _Changed(_pieces_of_words(letters.text, _edits(letters.text)))
        self.text = words.text
        self._changes = words, letters

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return where the characters from `start` to `stop`, one at least, are in the original text."""
        for change in self._changes:
            start, stop = change.origin(start)[0], change.origin(stop - 1)[1]
        return start, stop


class _Changed:
    """A text of which pieces were replaced: from where, to where, whether each character became one, and the new text."""

    def __init__(self, pieces: Iterable[tuple[int, int, bool, str]]) -> None:
        self._pieces = list(pieces)
        self._at = [0, *accumulate(len(new) for *_, new in self._pieces)]
        self.text = "".join(new for *_, new in self._pieces)

    def origin(self, at: int) -> tuple[int, int]:
        number = bisect_right(self._at, at) - 1
        begin, end, is_even, _ = self._pieces[number]
        if is_even:
            begin += at - self._at[number]
            return begin, begin + 1
        return begin, end


def word_pattern(words: str, *, is_prefix: bool) -> str:
    """Return a regular expression for `plain_words` in a `Folded` text."""
    end = f"{_LETTER}*" if is_prefix else f"(?!{_LETTER})"
    return f"(?<!{_LETTER}){words.replace(' ', _BREAK.pattern)}{end}"


def may_be_unspaced(text: str) -> bool:
    """Return whether a text may have characters of scripts without spaces. Takes 2 µs per page, a regular expression 20."""
    if text.isascii():
        return False
    data = text.encode("utf-8", "surrogatepass")
    return len(data.translate(None, _LEADS)) < len(data)


def postgres_function() -> str:
    """Return the statement that creates `fold` on PostgreSQL, without rare scripts and the spaces around symbols."""
    folded = {chr(code): _FOLDED[code] for code in range(0x80, 0x3100)}
    replaced = {letter: plain for letter, plain in folded.items() if len(plain) == 1 and plain != letter}
    removed = "".join(letter for letter, plain in folded.items() if not plain)
    value = "lower(normalize(value, NFKC))"
    for letter in "ßæÆœŒþÞ":
        value = f"replace({value}, '{letter}', '{_FOLDED[ord(letter)]}')"
    plain = "".join(replaced.values()).replace("'", "''")
    value = f"normalize(translate({value}, '{''.join(replaced)}{removed}', '{plain}'), NFC)"
    breaks = _BREAKS.replace("u0000", "u0001")
    spaced, unspaced, alphabetic = f"[^{breaks}{UNSPACED}]", f"[{UNSPACED}]", f"[^{breaks}0-9]"
    for sign, word in (
        (r"([a-z])\+\+", r"\1 ＋ "),
        (rf"(?<!{spaced})([cf])#", r"\1 ＃ "),
        (rf"(?<!{spaced}|\.)\.(?=net(?!{spaced}))", " ． "),
        (f"({spaced})(?={unspaced})", r"\1 "),
        (f"({unspaced})(?={spaced})", r"\1 "),
        (rf"({alphabetic})(?=[0-9]+\.[0-9])", r"\1 "),
        (rf"([0-9]\.[0-9]+)(?={alphabetic})", r"\1 "),
    ):
        value = f"regexp_replace({value}, '{sign}', '{word}', 'g')"
    return f"CREATE OR REPLACE FUNCTION fold(value TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT {value} $$"


def _edits(folded: str) -> list[tuple[int, int, str]]:
    """Return the edits that separate the words of a text, in order: start, end and new text."""
    edits: list[tuple[int, int, str]] = []
    if "++" in folded or "c#" in folded or "f#" in folded or ".net" in folded:
        edits = [(*sign.span(), _SIGN_WORDS[sign[0]]) for sign in _SIGN.finditer(folded)]
    runs = _SPACED_RUN.finditer(folded) if may_be_unspaced(folded) else ()
    versions = _VERSION.finditer(folded) if _FRACTION.search(folded) else ()
    ends = {at for match in chain(runs, versions) for at in match.span()}
    edits += [(at, at, " ") for at in ends if 0 < at < len(folded) and not _BREAK.search(folded, at - 1, at + 1)]
    return sorted(edits)


def _pieces_of_words(folded: str, edits: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, bool, str]]:
    """Yield the pieces of a text with separated words. The origin of an inserted space is the character after it."""
    position = 0
    for begin, end, new in edits:
        yield position, begin, True, folded[position:begin]
        yield begin, max(end, begin + 1), False, new
        position = end
    yield position, len(folded), True, folded[position:]


def _pieces(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield where pieces of a text begin and end that are folded by themselves, and whether each character becomes one."""
    position = 0
    for run in _RUN.finditer(text):
        begin, end = run.span()
        if all(map(_is_even, run[0])):
            continue
        if position < begin:
            yield position, begin, True
        for stop in range(begin + 1, end + 1):
            is_inside = stop < end and _continues(text[stop])
            if not is_inside and text[stop - 1 : stop + 1] != _SOFT_BREAK:
                yield begin, stop, False
                begin = stop
        position = end
    if position < len(text):
        yield position, len(text), True


@cache
def _is_even(letter: str) -> bool:
    return len(_FOLDED[ord(letter)]) == 1 and not _continues(letter)


@cache
def _continues(letter: str) -> bool:
    """Return whether a character can become one with the character before it."""
    return combining(letter) > 0 or "\u1160" <= letter <= "\u11ff" or letter in "ﾞﾟ"


def _fold_letters(text: str) -> str:
    plain = text.lower()
    if plain.isascii():
        return plain
    plain = normalize("NFC", plain.replace(_SOFT_BREAK, ""))
    # A text has few letters that change, and a replacement of one takes less time than a table for all takes per word.
    for letter in {*plain}.difference(_UNCHANGED):
        folded = _FOLDED[ord(letter)]
        if folded == letter:
            _UNCHANGED.add(letter)
        else:
            plain = plain.replace(letter, folded)
    return normalize("NFC", plain)


def _folded(letter: str) -> str:
    """Return the folded form of a character."""
    if letter in _INSTEAD:
        return _INSTEAD[letter]
    kind = category(letter)
    if kind == "Cf" or _IGNORED.match(letter):
        return ""
    plain = normalize("NFKD", letter)
    if kind[0] in "SP" and plain != letter:
        inner = plain.translate(_FOLDED)
        return f" {inner} " if inner.isalnum() else inner
    if letter in "§¶" or (kind in _SYMBOLS and ord(letter) not in _DRAWN):
        return f" {letter} "
    if kind[0] in "SPZC":
        return " "
    if name(plain[0], "").startswith(_MARKED):
        plain = _IGNORED.sub("", plain)
    lower = normalize("NFC", plain).casefold()
    if lower != letter:
        return lower.translate(_FOLDED)
    variant = _VARIANT.match(name(letter, ""))
    return variant[1].lower() if variant else letter
