"""Run the commands in `console` blocks of a document in a shell and compare their output with the document.

A line that starts with `$ ` is a command. The lines below it must occur in its output, in this order. `…` matches any
text within a line; a line of `…` matches any lines. Commands must exit with 0, unless marked: `# exits with 5`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.waiting import until

_SECONDS = 240
_NOT_YET = ("search by meaning: not complete yet", "the model is loading or busy; try again")
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_EXIT = re.compile(r"#\s*exits with (\d+)\s*$")
_ANYTHING = "…"


@dataclass(frozen=True, slots=True)
class Typed:
    """A command in a document, its location, and its expected output."""

    line: int
    words: str
    answer: tuple[str, ...]

    @property
    def code(self) -> int:
        """The documented exit code."""
        told = _EXIT.search(self.words)
        return int(told[1]) if told else 0


def headings(document: Path) -> list[str]:
    """Return the headings of a document's sections, in order."""
    return _HEADING.findall(document.read_text(encoding="utf-8"))


def commands(document: Path, under: str | None = None) -> Iterator[Typed]:
    """Return every command in a document or in one of its sections, in order."""
    text = document.read_text(encoding="utf-8")
    begin, end = 0, len(text)
    if under is not None:
        begin = text.index(f"## {under}\n")
        following = _HEADING.search(text, begin + 1)
        end = following.start() if following else end
    for block in _BLOCK.finditer(text, begin, end):
        first = text.count("\n", 0, block.start(1)) + 1
        lines = block[1].splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
        assert starts[:1] == [0], f"{document.name} line {first}: a block begins with a command"
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            yield Typed(first + start, lines[start].removeprefix("$ "), tuple(lines[start + 1 : end]))


def carry_out(
    document: Path,
    environment: Mapping[str, str],
    folder: Path,
    *,
    under: str | None = None,
    before: Sequence[str] = (),
) -> int:
    """Run every command of a document or section in this folder, in order; return their number.

    `before`: arguments that precede the shell.
    """
    shown = list(commands(document, under))

    def run(words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*before, "bash", "-c", words],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )

    for typed in shown:
        done = run(typed.words)
        is_later = typed.words == "catchment status" or any(words in done.stdout for words in _NOT_YET)
        if is_later and first_missing(typed.answer, done.stdout):
            # The watcher reports a new source after some seconds, and a vault has all its embeddings after a minute.
            done = until(partial(run, typed.words), partial(_has, typed.answer), must=False)
        where = f"{document.name} line {typed.line}: {typed.words}"
        assert done.returncode == typed.code, f"{where}\nended with {done.returncode}:\n{done.stdout}"
        missing = first_missing(typed.answer, done.stdout)
        assert missing is None, f"{where}\ndid not say {missing!r} where the document does, but:\n{done.stdout}"
    return len(shown)


def _has(answer: tuple[str, ...], done: subprocess.CompletedProcess[str]) -> bool:
    return first_missing(answer, done.stdout) is None


def first_missing(shown: tuple[str, ...], said: str) -> str | None:
    """Return the first expected line that is missing after the lines before it."""
    lines = iter(said.splitlines())
    for line in shown:
        if line.strip() == _ANYTHING:
            continue
        pattern = _pattern(line)
        if not any(pattern.fullmatch(_even(one)) for one in lines):
            return line
    return None


def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in re.split(r" ?… ?", _even(line))))


def _even(line: str) -> str:
    """Collapse runs of spaces: the alignment of a table depends on its widest cell."""
    return " ".join(line.split())
