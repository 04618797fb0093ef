"""The folding of text: words that a reader takes for the same are equal in the index, in queries, filters and snippets.

Folding ignores case, invisible characters, and the marks of Latin, Greek, Arabic and Hebrew letters. It keeps marks that
distinguish words, such as those of Indic scripts and of kana. Folded words consist of ASCII letters and digits and of any other
characters. All other ASCII characters separate words, as in the tokenizer `ascii` of FTS5. Symbols such as € and 🌱 are words.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from unicodedata import category, combining, name, normalize

_MARKED = ("LATIN", "GREEK", "ARABIC", "HEBREW")
"""Scripts whose marks are ignored."""
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

_SIGN = re.compile(r"(?<=[a-z])\+\+|(?<=\b[cf])#|(?<![\w.])\.(?=net\b)")
_SIGN_WORDS = {"++": " ＋ ", "#": " ＃ ", ".": " ． "}
"""ASCII characters that distinguish C++, C# and .NET from other words: they are words too."""
_BREAKS = r"\x00-/:-@\[-`{-\x7f"
_BREAK = re.compile(f"[{_BREAKS}]+")
_LETTER = f"[^{_BREAKS}]"


class _FoldedLetters(dict[int, str]):
    """Map of characters to their folded forms."""

    def __missing__(self, code: int) -> str:
        self[code] = _folded(chr(code))
        return self[code]


_FOLDED = _FoldedLetters({code: chr(code).lower() for code in range(128)})
_UNCHANGED = {chr(code) for code in range(128)}
"""Letters in lower case that are known to be folded already."""


def fold(text: str) -> str:
    """Return the text as it is indexed and compared."""
    folded = _fold_letters(text)
    if "++" in folded or "c#" in folded or "f#" in folded or ".net" in folded:
        folded = _SIGN.sub(lambda sign: _SIGN_WORDS[sign[0]], folded)
    return folded


def plain_words(text: str) -> str:
    """Return the folded words of a text, separated by single spaces."""
    return " ".join(_BREAK.split(fold(text))).strip()


class Folded:
    """A folded text, in which C++ has no words for its signs, and where its characters come from."""

    def __init__(self, text: str) -> None:
        pieces: list[str] = []
        self._begins: list[int] = []
        self._at: list[int] = []
        self._is_even: list[bool] = []
        length = 0
        for begin, end, is_even in _pieces(text):
            pieces.append(_fold_letters(text[begin:end]))
            self._begins.append(begin)
            self._at.append(length)
            self._is_even.append(is_even)
            length += len(pieces[-1])
        self._begins.append(len(text))
        self.text = "".join(pieces)

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return where the characters from `start` to `stop`, one at least, are in the original text."""
        return self._origin(start)[0], self._origin(stop - 1)[1]

    def _origin(self, at: int) -> tuple[int, int]:
        piece = bisect_right(self._at, at) - 1
        begin = self._begins[piece]
        if self._is_even[piece]:
            begin += at - self._at[piece]
            return begin, begin + 1
        return begin, self._begins[piece + 1]


def word_pattern(words: str, *, is_prefix: bool) -> str:
    """Return a regular expression for `plain_words` in a `Folded` text."""
    end = f"{_LETTER}*" if is_prefix else "" if words[-1] in "＋＃" else f"(?!{_LETTER})"
    pattern = words.replace(" ＋", r"\+\+").replace(" ＃", "#").replace("． ", r"\.").replace(" ", _BREAK.pattern)
    return f"(?<!{_LETTER}){pattern}{end}"


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
    for sign, word in ((r"([a-z])\+\+", r"\1 ＋ "), (r"\m([cf])#", r"\1 ＃ "), (r"(^|[^\w.])\.(net\M)", r"\1． \2")):
        value = f"regexp_replace({value}, '{sign}', '{word}', 'g')"
    return f"CREATE FUNCTION fold(value TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT {value} $$"


def _pieces(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield where pieces of a text begin and end that are folded by themselves, and whether each character becomes one."""
    done = 0
    for run in _RUN.finditer(text):
        begin, end = run.span()
        if all(map(_is_even, run[0])):
            continue
        if done < begin:
            yield done, begin, True
        for stop in range(begin + 1, end + 1):
            is_inside = stop < end and _continues(text[stop])
            if not is_inside and text[stop - 1 : stop + 1] != _SOFT_BREAK:
                yield begin, stop, False
                begin = stop
        done = end
    if done < len(text):
        yield done, len(text), True


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
