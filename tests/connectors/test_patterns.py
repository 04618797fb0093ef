"""Ignore patterns: a table of cases, and random ones, answered as `git check-ignore` answers them."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import pytest

from connectors.folders import patterns
from connectors.folders.ignore import IgnoreRules

CASES: Mapping[str, Sequence[str]] = {
    "data/**|!data/keep.txt": ["data/keep.txt", "data/a.txt", "data/sub/keep.txt", "keep.txt"],
    "*|!*/|!*.md": ["a.md", "a.txt", "docs/a.md", "docs/deep/a.md", "docs/deep/a.txt"],
    "/*|!/src|/src/*|!/src/a.py": ["src/a.py", "src/b.py", "b.py", "lib/src/a.py"],
    "build/|!build/keep.txt": ["build/keep.txt", "src/build/a", "src/x/build"],
    "build|!src/build": ["build/a", "src/build/a", "lib/src/build"],
    "foo": ["foo/bar", "Foo", "foobar", "a/foo"],
    "/foo": ["foo", "a/foo", "b/foo/c"],
    "a/foo": ["a/foo", "b/a/foo", "a/foobar"],
    "foo/": ["foo", "a/foo/b"],
    "/": ["a", "b/c"],
    "//a": ["a", "b/a"],
    "a//b": ["a/b", "a/c/b"],
    "*": ["a", ".b", "c/d"],
    "*/": ["a", "b/c"],
    "a/*": ["a/b", "a/c/d", "b"],
    "a/*/c": ["a/b/c", "a/c", "a/b/b/c"],
    "?": ["a", "ab", "é", "c/d"],
    "??": ["a", "ab", "é"],
    "*.txt": ["a.txt", ".txt", "a.txt.md", "b/c.txt"],
    "*ab*": ["ab", "xaby", "axb", "x/yab"],
    "*a*a*": ["a", "aa", "bacab", "ab"],
    "ten*ways": ["tenways", "ten-long-ways", "ten/ways"],
    "**": ["a", "b/c"],
    "**/": ["a", "b/c", "d/e/f"],
    "/**": ["a", "b/c"],
    "**/foo": ["foo", "a/foo", "a/b/foo", "afoo"],
    "**/foo/**": ["foo", "a/foo", "b/foo/c", "d/e/foo/f/g"],
    "a/**": ["a/b", "a/c/d", "b/a/c"],
    "a/**/b": ["a/b", "a/x/b", "a/x/y/b", "ab", "c/a/b"],
    "a/**/**/b": ["a/b", "a/x/b"],
    "a/***/b": ["a/b", "a/x/b", "a/x/y/b"],
    "1**/***/|!x": ["1/a", "1b/c"],
    "a**/*": ["a/b", "ab/c", "b/a"],
    "a/**/b/**/c": ["a/b/c", "a/x/b/y/c", "a/x/y/b/c", "a/c"],
    "a/**/*": ["a/b", "a/c/d"],
    "a/**b": ["a/b", "a/xb", "a/x/b"],
    "a/b**": ["a/b", "a/bx", "a/by/z", "a/c"],
    "a/b**/c": ["a/bc", "a/b/c", "a/bx/c", "a/x/c"],
    "a/?b**/c": ["a/xb/c", "a/xb/y/c", "a/xbc"],
    r"a/**\/b": ["a/b", "a/x/b"],
    "foo**bar": ["foobar", "foo-bar", "foo/bar"],
    "[ab]": ["a", "b", "c", "ab"],
    "[!a]": ["a", "b", "c/a"],
    "[^a]": ["a", "b", "^"],
    "x[!a]y": ["xby", "xay", "x/y"],
    "a/x[!a]y": ["a/xby", "a/x/y"],
    "a/x[.-0]y": ["a/x.y", "a/x0y", "a/x/y"],
    "a[]]b": ["a]b", "a[b"],
    "a[]-]b": ["a]b", "a-b", "acb"],
    "a[!]-]b": ["a]b", "acb"],
    "[--A]": ["-", "A", "5", "a"],
    "[a-]": ["a", "-", "b"],
    "[a-c-e]": ["b", "-", "d", "e"],
    "[z-a]": ["z", "a", "m"],
    r"[\-_]": ["-", "_", "\\"],
    r"[\]]": ["]", "\\"],
    r"[\\-^]": ["\\", "]", "^", "-"],
    "[[-a]": ["[", "_", "a", "-"],
    "[a": ["[a", "a"],
    "[": ["["],
    "[!": ["[!", "a"],
    "[[]": ["[", "]"],
    "[[:x]": ["[", ":", "x", "y"],
    "[[:x]]": ["[]", ":]", "x]", "x"],
    "[[:alpha:]]": ["a", "Z", "1", "é"],
    "[[:digit:][:upper:]_]": ["1", "A", "a", "_"],
    "[![:space:]]": ["a", " "],
    "[[:upper:]-z]": ["A", "-", "z", "m"],
    "[[:nothing:]]": ["a", ":"],
    "[[::]]": [":", "a]"],
    "[[:alpha:": ["a"],
    "[é]x": ["éx", "ex"],
    "é*": ["é", "éa", "e"],
    r"\*": ["*", "a"],
    r"\a": ["a", "\\a"],
    r"a\\b": ["a\\b", "ab"],
    "a\\": ["a\\", "a"],
    r"\#a": ["#a", "a"],
    "#a": ["#a", "a"],
    r"\!a": ["!a", "a"],
    "!a": ["a", "!a"],
    "a|!a|a": ["a"],
    "a|!a": ["a", "b/a"],
    "!": ["!", "a"],
    "!!a": ["!a", "a"],
    "!a|*": ["a"],
    "a ": ["a", "a "],
    "a\\ ": ["a", "a "],
    "a\\  ": ["a", "a ", "a  "],
    "a\\\\ ": ["a", "a\\", "a\\ "],
    "a\t": ["a", "a\t"],
    " a": ["a", " a"],
    "   ": ["a", "   "],
    "a\r": ["a", "a\r"],
    "a\rb": ["a\rb", "a"],
    "a\x0bb|c\x0c": ["a\x0bb", "b", "c\x0c", "c"],
    "a\0b": ["a", "ab"],
    "a\\/": ["a/b", "c/a/b"],
    "a\\/b": ["a/b", "x/a/b"],
    "\ufeffa": ["a", "\ufeffa"],
    "caf?": ["café", "cafe"],
    "nested/|!nested/keep|nested2/*|!nested2/keep": ["nested/keep", "nested2/keep", "nested2/other"],
}
"""Lines of an ignore file, with | between them, and files. Git itself says which of those are ignored."""

_CLASSES = ("alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit")
_NAMES = (
    *(
        "a",
        "b",
        "ab",
        "ba",
        "abc",
        "a.b",
        "-a",
        "a-b",
        "]",
        "[",
        "^",
        "!",
        "!a",
        "#a",
        "*",
        "?",
        "A",
        "1",
        "é",
        "_",
        ".a",
    ),
    *("a]", "a b", "a ", "\\", "a\\b"),
)


class Compared:
    """Folders with an ignore file and files of their own; what git and what we say of each file."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._said: dict[str, bool] = {}
        self._about: dict[str, str] = {}
        subprocess.run(["git", "init", "--quiet", root], check=True)

    def add(self, text: str, files: Iterable[str]) -> None:
        folder = self._root / str(len(self._about))
        folder.mkdir()
        (folder / ".gitignore").write_bytes(os.fsencode(text))
        layer = IgnoreRules(ignore_files=(".gitignore",), hidden=True).top().enter("", str(folder))
        alone = patterns.those_in(patterns.lines_of(text.removeprefix("\ufeff")))
        for file in files:
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            above = [str(parent) for parent in PurePosixPath(file).parents][:-1]
            hidden = any(layer.why_not(one, folder=True) for one in above) or bool(layer.why_not(file, folder=False))
            assert alone.ignores(file) == hidden
            self._said[f"{folder.name}/{file}"] = hidden
        self._about[folder.name] = text

    def differences(self) -> list[tuple[str, str, str]]:
        """The text, the file, and what git says, wherever that is not what we say."""
        asked = "\0".join(self._said).encode()
        command = ["git", "-C", self._root, "-c", "core.excludesFile=", "check-ignore", "--no-index", "--stdin", "-z"]
        answer = subprocess.run(command, input=asked, capture_output=True, check=False)
        assert answer.returncode in (0, 1), answer.stderr
        ignored = set(os.fsdecode(answer.stdout).split("\0")) - {""}
        return [
            (self._about[file.partition("/")[0]], file.partition("/")[2], "ignored" if file in ignored else "kept")
            for file, said in self._said.items()
            if said != (file in ignored)
        ]


@pytest.fixture
def compared(tmp_path: Path) -> Compared:
    return Compared(tmp_path)


def test_every_case_of_the_table_is_answered_as_git_answers_it(compared: Compared) -> None:
    for text, files in CASES.items():
        for ending in ("", "\n", "\r\n"):
            compared.add(text.replace("|", ending or "\n") + ending, files)
    assert compared.differences() == []


def test_every_class_holds_the_characters_that_git_puts_into_it(compared: Compared) -> None:
    names = [chr(code) for code in range(1, 128) if chr(code) not in "./"]
    for name in _CLASSES:
        compared.add(f"[[:{name}:]]\n", names)
        compared.add(f"x[![:{name}:]]\n", [f"x{char}" for char in names])
    assert compared.differences() == []


@pytest.mark.parametrize("seed", range(4))
def test_random_patterns_are_answered_as_git_answers_them(compared: Compared, seed: int) -> None:
    lot = random.Random(seed)
    for _ in range(120):
        compared.add("\n".join(_pattern(lot) for _ in range(lot.randint(1, 4))), _files(lot))
    assert compared.differences() == []


def _pattern(lot: random.Random) -> str:
    pieces = [
        *("a", "b", "ab", ".", "-", "é", "A", "1", "*", "*", "?", "**", "/", "/", "/", "/**/", "**/", "/**"),
        *("[ab]", "[!a]", "[^b]", "[a-c]", "[]a]", "[!]a]", "[a-]", "[", "]", "!", "#", "\\", " ", r"\*", r"\a"),
        *("[[:alpha:]]", "[[:punct:]]", "[![:digit:]]", r"[\]a]", "[/a]", "[.-0]", "^", "***"),
    ]
    return "!" * (lot.random() < 0.25) + "".join(lot.choices(pieces, k=lot.randint(1, 5))) + "/" * (lot.random() < 0.15)


def _files(lot: random.Random) -> set[str]:
    """Files of which none is a folder of another."""
    files: set[str] = set()
    folders: set[str] = set()
    for _ in range(12):
        parts = lot.choices(_NAMES, k=lot.randint(1, 4))
        above = {"/".join(parts[:end]) for end in range(1, len(parts))}
        if not above & files and "/".join(parts) not in folders:
            files.add("/".join(parts))
            folders |= above
    return files


@pytest.mark.parametrize("line", ["!", "/", "[a", "a\\", "[[:nothing:]]", "a\0b", "!/", "\ud800"])
def test_settings_refuse_a_pattern_that_can_match_nothing(line: str) -> None:
    with pytest.raises(ValueError):
        patterns.compiled(["*.md", line])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["docs/"], {"docs/a.md", "docs/private/b.md"}),
        (["docs/", "!docs/private/"], {"docs/a.md"}),
        (["docs/**", "!docs/private/"], {"docs/a.md"}),
        (["!docs/", "*.md"], {"docs/a.md", "docs/private/b.md", "c.md"}),
        (["*.md", "!c.md"], {"docs/a.md", "docs/private/b.md"}),
        (["!c.md"], set()),
    ],
)
def test_last_pattern_for_a_file_or_its_folders_decides_what_is_covered(lines: list[str], expected: set[str]) -> None:
    chosen = patterns.compiled(lines)
    assert {file for file in ("docs/a.md", "docs/private/b.md", "c.md") if chosen.covers(file)} == expected


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "line",
    [
        "*a" * 40 + "b",
        "a*" * 40 + "/b",
        "**/a/" * 40 + "b",
        "*/" * 100 + "b",
        "?*" * 40 + "b",
        "**/*a*a/" * 20 + "b",
        "[a]*" * 40 + "b",
    ],
)
def test_many_stars_take_no_longer_than_few(line: str) -> None:
    hostile = patterns.those_in([line])
    began = time.process_time()
    for path in ("a" * 250, "/".join(["a" * 10] * 100), "/".join("a" * 2_000)):
        assert hostile.decides(path, folder=False) is None
    assert time.process_time() - began < 1
