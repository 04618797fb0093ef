"""Targets: a parser boundary as a function of bytes, and a generator of input for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import orjson
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

CORPUS = Path(__file__).parent / "corpus"

_ODD_BYTES = [
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\x1b[2J",
    b"\x1b]0;x\x07",
    b"\r",
    b"\x85",
]
_ODD_TEXT = [
    "\u202e",
    "\u2028",
    "\u0301",
    "\U0001f468\u200d\U0001f469",
    "\ufeff",
    "İ",
    "ß",
    "ﬁ",
    "漢字",
    "กข",
    "\x00",
    "²",
    "٣",
]
_ODD_VALUES: list[Any] = [
    None, True, False, 0, -1, 2**31, 2**63 - 1, -(2**63), 1.5, 1e300, "", "x", "\x00", "\x1b[2J", "٣", "²", "9" * 5_000,
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "2026-01-01", "2026-01-01T00:00:00", "../..", "http://[", "\u202e",
    [], [None], [[]], {}, {"": None}, [1, "x", {}],
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Inputs:
    """Input generators: `made` at once, or by mutation of useful input, with `words` of its syntax.

    `varied` mutates an input and is set only if input needs a certain form.
    """

    made: SearchStrategy[bytes]
    words: Sequence[bytes] = ()
    varied: Callable[[bytes, Random], bytes] | None = None

    def allow(self, data: bytes) -> bool:
        """Return whether the input has the required form."""
        if self.varied is None:
            return True
        try:
            orjson.loads(data)
        except orjson.JSONDecodeError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Target:
    """`check` raises if the input violates a guarantee; `inputs` generates almost valid input."""

    name: str
    check: Callable[[bytes], None]
    inputs: Inputs

    @property
    def corpus(self) -> Path:
        """The folder of the stored cases."""
        return CORPUS / self.name

    def kept(self) -> list[Path]:
        """The stored cases."""
        return sorted(self.corpus.glob("*"))


def woven(pieces: str, *, most: int = 24) -> Inputs:
    """Generate pieces of a syntax, one per line of the table, in any order, mixed with text and arbitrary bytes.

    In the table `␠` is a space at the end of a line, `␤` a line end and `␉` a tab.
    """
    table = [
        piece.replace("␠", " ").replace("␤", "\n").replace("␉", "\t").encode("utf-8", "surrogatepass")
        for piece in pieces.strip().split("\n")
    ]
    odd = [*_ODD_BYTES, *(text.encode() for text in _ODD_TEXT)]
    piece = st.one_of(
        st.sampled_from(table),
        st.sampled_from(table),
        st.sampled_from(table),
        st.sampled_from([b"\n", b" ", b"\n\n", b"a", b"1"]),
        st.sampled_from(odd),
        st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace")),
        st.binary(max_size=8),
    )
    repeated = st.tuples(piece, st.sampled_from([1, 1, 1, 1, 2, 3, 40])).map(lambda pair: pair[0] * pair[1])
    made = st.one_of(st.lists(repeated, max_size=most).map(b"".join), st.binary(max_size=200))
    return Inputs(made, [*table, *odd])


def shaped(*templates: Any) -> Inputs:
    """Generate JSON of one of these shapes with a few values replaced, removed or made unusual, at any depth."""

    def made(random: Random) -> bytes:
        value = random.choice(templates)
        for _ in range(random.randint(0, 3)):
            value = _changed(random, value)
        return _json(value)

    return Inputs(st.builds(made, st.randoms(use_true_random=False)), varied=_varied)


def damaged(*samples: bytes) -> Inputs:
    """Generate a file truncated, with changed bytes, or with a piece removed or doubled."""

    @st.composite
    def made(draw: st.DrawFn) -> bytes:
        data = bytearray(draw(st.sampled_from(samples)))
        for _ in range(draw(st.integers(0, 4))):
            place = draw(st.integers(0, max(0, len(data) - 1)))
            length = draw(st.sampled_from([1, 2, 4, 16, 100]))
            match draw(st.sampled_from(["other", "out", "double", "cut", "number"])):
                case "other":
                    data[place : place + 1] = draw(st.binary(min_size=1, max_size=1))
                case "out":
                    del data[place : place + length]
                case "double":
                    data[place:place] = data[place : place + length]
                case "cut":
                    del data[place:]
                case "number":
                    data[place : place + 4] = draw(st.sampled_from([b"\xff" * 4, b"\x00" * 4, b"\x7f\xff\xff\xff"]))
        return bytes(data)

    return Inputs(made())


def _varied(data: bytes, random: Random) -> bytes:
    """Return the JSON with one change."""
    try:
        return _json(_changed(random, orjson.loads(data)))
    except orjson.JSONDecodeError:
        return b"null"


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # not serializable as JSON
        return b"null"


def _changed(random: Random, value: Any) -> Any:
    """Return the value with one change."""
    if isinstance(value, dict) and value and random.randint(0, 5):
        key = random.choice(sorted(value))
        inner = {**value}
        if random.randint(0, 7):
            inner[key] = _changed(random, inner[key])
        else:
            del inner[key]
        return inner
    if isinstance(value, list) and value and random.randint(0, 5):
        place = random.randrange(len(value))
        return [*value[:place], _changed(random, value[place]), *value[place + 1 :]]
    if isinstance(value, str) and value and random.random() < 0.5:
        return value[: random.randint(0, len(value))] + random.choice(_ODD_TEXT) + value
    return random.choice(_ODD_VALUES)
