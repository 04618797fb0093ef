"""Recognize text with Tesseract's own command.

Its output has each word with place and confidence. The reader of office formats has Tesseract inside, but removes lines that it
takes for noise.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from catchment.content.normalize.language_detection import language
from catchment.content.normalize.office.pdf.legibility import legibility
from catchment.content.pictures.drawing import page_picture
from catchment.content.secret_masking import mask
from catchment.errors import ParseError
from catchment.model import PageText, PlacedWord

_PROGRAM = "tesseract"
_ORIENTATION = "osd"
_WORD_LEVEL = "5"
_LEAST_CONFIDENCE = 0.6
"""Mean confidence of a page below which its text is mostly wrong."""
_DOUBTFUL = 0.75
"""Mean confidence below which a page may lie on its side."""
_SURE = 0.8
"""Mean confidence of a page whose words are right, though they look odd: passwords, codes."""
_SAME = 0.02
"""Difference of confidences that means nothing: with the wrong language, Tesseract is as confident of words without accents."""
_LEAST_TURN = 2.0
"""Confidence of the orientation, as Tesseract states it."""
_LOOK = re.compile(r"Rotate: (\d+)\s+Orientation confidence: ([\d.]+)\s+Script: (\w+)", re.ASCII)
_SCRIPTS: Mapping[str, Sequence[str]] = {
    "Japanese": ("jpn",), "Han": ("chi_sim", "jpn"), "Korean": ("kor",), "Hangul": ("kor",), "Cyrillic": ("rus", "ukr"),
    "Greek": ("ell",), "Arabic": ("ara",), "Hebrew": ("heb",),
}  # fmt: skip
"""Tesseract's names of languages by its name of their script, other than Latin."""
_EAST_ASIAN = "[\u3040-\u9fff]"
_APART = re.compile(f"(?<={_EAST_ASIAN}) (?={_EAST_ASIAN})")
"""A blank that Tesseract puts between two characters of a text without blanks."""
_A_WORD = re.compile(rf"[^\W_]{{3}}|{_EAST_ASIAN}{{2}}")
"""Lines of a drawing look like single letters."""
_BROKEN = re.compile(r"(?<=[^\W\d_])-\n(?=[a-zà-öø-ÿ])")
_PAIRS = (
    "ar:ara cs:ces da:dan de:deu el:ell en:eng es:spa fi:fin fr:fra he:heb hu:hun it:ita ja:jpn ko:kor nb:nor "
    "nl:nld no:nor pl:pol pt:por ro:ron ru:rus sv:swe tr:tur uk:ukr zh:chi_sim"
)
_CODES: Mapping[str, str] = dict(pair.split(":") for pair in _PAIRS.split())
"""Tesseract's name of a language, by its ISO 639-1 code."""


def version() -> str | None:
    """Return the version of the installed program; None without it."""
    return _output("--version").partition("\n")[0].strip() if shutil.which(_PROGRAM) else None


def installed() -> frozenset[str]:
    """Return Tesseract's names of the languages whose files are installed."""
    lines = _output("--list-langs").splitlines()[1:] if shutil.which(_PROGRAM) else []
    return frozenset(name.strip() for name in lines) - {_ORIENTATION}


def names(codes: Iterable[str]) -> list[str]:
    """Return Tesseract's names of languages, in order, without those that it does not have at all."""
    return list(dict.fromkeys(_CODES[code] for code in codes if code in _CODES))


def text_on(picture: bytes, languages: Sequence[str]) -> PageText:
    """Recognize the text on a PNG, also if the picture lies on its side. Runs in a parser process.

    `languages`: Tesseract's names, the most probable first. A text in another installed language, or in a script that none of
    them has, is recognized again with that language first: the first one decides about accents.
    """
    page = _recognized(picture, languages)
    turn, of_script = _look(picture) if page.words and page.confidence < _DOUBTFUL else (0, ())
    if turn:
        picture = page_picture(picture, "image/png", 1, turn)
        turned = _recognized(picture, languages)
        if turned.confidence > page.confidence:
            page = replace(turned, turn=turn)
    likely = [*of_script, *names(filter(None, (language(page.text),)))]
    there = _installed_of(likely)
    first = there[0] if there else languages[0]
    lacks = likely[0] if likely and not there else ""
    if first != languages[0]:
        again = _recognized(picture, (first, *(each for each in languages if each != first)))
        if again.confidence >= page.confidence - _SAME:
            page = replace(again, turn=page.turn)
    is_garbage = page.confidence < _SURE and legibility(page.text).is_doubtful
    if page.confidence < _LEAST_CONFIDENCE or not _A_WORD.search(page.text) or is_garbage:
        return PageText("", page.confidence, lacks=lacks if of_script else "")
    text = mask(page.text)
    shown = set(text.split())
    words = page.words if text == page.text else tuple(word for word in page.words if word.text in shown)
    return replace(page, text=text, words=words, lacks=lacks)


def _installed_of(likely: Sequence[str]) -> list[str]:
    """Return those of the languages that are installed. Starts no process without any."""
    available = installed() if likely else frozenset[str]()
    return [name for name in likely if name in available]


def _recognized(picture: bytes, languages: Sequence[str]) -> PageText:
    output = _run(picture, "-l", "+".join(languages), "--psm", "3", "tsv").decode("utf-8", "replace")
    rows = [line.split("\t") for line in output.split("\n")[1:-1]]
    if not rows:
        return PageText("", 0.0)
    size = int(rows[0][8]), int(rows[0][9])  # of the page
    found_words = [row for row in rows if row[0] == _WORD_LEVEL and row[11].strip()]
    letters = sum(len(row[11]) for row in found_words)
    confidence = sum(float(row[10]) * len(row[11]) for row in found_words) / 100 / max(1, letters)
    words = tuple(
        PlacedWord(row[11], *(1_000 * int(row[6 + side]) // size[side % 2] for side in range(4))) for row in found_words
    )
    return PageText(
        _APART.sub("", _BROKEN.sub("", "\n\n".join(_paragraphs(found_words)))), round(confidence, 2), words=words
    )


def _paragraphs(rows: list[list[str]]) -> Iterator[str]:
    for _, paragraph in groupby(rows, lambda row: row[2:4]):
        yield "\n".join(" ".join(word[11] for word in line) for _, line in groupby(paragraph, lambda row: row[2:5]))


def _look(picture: bytes) -> tuple[int, Sequence[str]]:
    """Return the clockwise degrees that make a picture upright, and languages with its script; 0 and none if it cannot tell."""
    try:
        answer = _LOOK.search(_run(picture, "--psm", "0").decode("utf-8", "replace"))
    except ParseError:  # too few characters
        answer = None
    if answer is None:
        return 0, ()
    turn = int(answer[1]) if float(answer[2]) >= _LEAST_TURN else 0
    return turn, _SCRIPTS.get(answer[3], ())


def _run(picture: bytes, *options: str) -> bytes:
    """Run the program in this process's group, so that it ends with it, and within its limit of memory."""
    command = [_PROGRAM, "stdin", "stdout", "--dpi", "300", *options]
    variables = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    ended = subprocess.run(command, input=picture, capture_output=True, env=variables, check=False)
    if ended.returncode:
        raise ParseError("the text recognition failed on this picture")
    return ended.stdout


def _output(option: str) -> str:
    return subprocess.run([_PROGRAM, option], capture_output=True, text=True, check=False).stdout
