"""Judge whether the text of a page consists of words. It does not if its fonts have no correct Unicode mapping."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

_CORE = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)
"""A token without the marks before and after it."""
_JOINTS = re.compile("[-‐‑–—'’ʼ./·…&+=<>\",:;()\\[\\]_\\\\*`\u200c\u200d\u00ad]+")
_NUMBER = re.compile(r"\d[\d.,:/%°'’×+–-]*")
_ADDRESS = re.compile(r"\w://|^www\.|[^@]@[^@]")
_NO_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd\U000f0000-\U0010ffff]")
_IDEOGRAPH = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]")
_KOREAN = re.compile("[\u4e00-\u9fff]*[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]{1,12}")
_NO_SCRIPT = {"COMBINING", "MODIFIER", "MICRO", "MASCULINE", "FEMININE"}
_CAMEL = re.compile("[A-Za-z][a-z]*(?:[A-Z][a-z]{2,})+")
_VOWEL = re.compile("[aeiouywæœøəı]")
_LETTERS_PER_VOWEL = 9
_MAX_MARK, _MAX_ABBREVIATION, _MAX_CODE, _MAX_WORD = 3, 4, 20, 24
_MIN_GARBAGE = 20


class Legibility(NamedTuple):
    """The letters of a text in words of any language, and its characters that are in no words, numbers, marks or addresses."""

    words: int
    garbage: int

    @property
    def is_doubtful(self) -> bool:
        """Whether at least half of the text is garbage. A few odd characters are not judged."""
        return self.garbage >= max(_MIN_GARBAGE, self.words)


def legibility(text: str) -> Legibility:
    """Judge a text token by token."""
    judged = [_judged(token) for token in text.split()]
    return Legibility(sum(words for words, _ in judged), sum(garbage for _, garbage in judged))


@lru_cache(maxsize=20_000)
def _judged(token: str) -> tuple[int, int]:
    """Return how many characters of a token count as words and as garbage. Numbers, marks and addresses are neither."""
    missing = len(_NO_CHARACTER.findall(token))
    if (match := _CORE.search(token)) is None:
        is_mark = len(token) <= _MAX_MARK or (len(set(token)) < _MAX_MARK and "?" not in token)
        return 0, missing if is_mark else len(token)
    core = match[0]
    if not any(map(str.isalpha, core)):
        return 0, missing if _NUMBER.fullmatch(core) else len(core)
    if ideographs := [] if _HANGUL.search(core) else _IDEOGRAPH.findall(core):
        return len(ideographs), missing
    if _ADDRESS.search(core) or (len(core) <= _MAX_CODE and any(map(str.isdigit, core))):
        return 0, missing
    parts = [part for part in _JOINTS.split(core) if not part.isdigit()]
    words = sum(len(part) for part in parts if _is_word(part))
    return words, sum(map(len, parts)) - words


def _is_word(part: str) -> bool:
    """Return whether letters may be a word: of one script, not too long, in one letter case, with vowels if it is Latin."""
    if _HANGUL.search(part):
        return _KOREAN.fullmatch(part) is not None
    scripts = {unicodedata.name(letter, "?").split(maxsplit=1)[0] for letter in part} - _NO_SCRIPT
    lower = part.lower()
    if len(scripts) != 1 or lower == part.upper() or len(part) <= _MAX_ABBREVIATION:
        return len(scripts) == 1 and (len(part) > 1 or lower == part.upper())
    if len(part) > _MAX_WORD:
        return False
    if part not in (lower, part.upper(), part.capitalize()) and not _CAMEL.fullmatch(part):
        return False
    letters = unicodedata.normalize("NFD", lower)
    is_accented = 3 * sum(map(str.isascii, part)) < len(part)
    return "LATIN" not in scripts or (
        not is_accented and len(_VOWEL.findall(letters)) * _LETTERS_PER_VOWEL >= len(part)
    )
