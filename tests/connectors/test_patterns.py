"""Ignore patterns give the same results as `git check-ignore`, for a table of cases and for random patterns."""

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
"""Lines of an ignore file, separated by |, and the files to match. Git provides the expected result."""

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
    """Folders with an ignore file each; collects our result for every file and compares it with git's."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._results: dict[str, bool] = {}
        self._texts: dict[str, str] = {}
        subprocess.run(["git", "init", "--quiet", root], check=True)

    def add(self, text: str, files: Iterable[str]) -> None:
        folder = self._root / str(len(self._texts))
        folder.mkdir()
        (folder / ".gitignore").write_bytes(os.fsencode(text))
        layer = IgnoreRules(ignore_files=(".gitignore",), hidden=True).top().enter("", str(folder))
        alone = patterns.parse_ignore_file(patterns.split_lines(text.removeprefix("\ufeff")))
        for file in files:
            path = folder / file
            if path.name.endswith("~"):
                continue  # a temporary file's name, excluded by every list of patterns
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            parents = [str(parent) for parent in PurePosixPath(file).parents][:-1]
            hidden = any(layer.why_not(parent, folder=True) for parent in parents) or bool(
                layer.why_not(file, folder=False)
            )
            assert alone.ignores(file) == hidden
            self._results[f"{folder.name}/{file}"] = hidden
        self._texts[folder.name] = text

    def differences(self) -> list[tuple[str, str, str]]:
        """Return ignore file, path and git's result wherever ours differs."""
        input_data = "\0".join(self._results).encode()
        command = ["git", "-C", self._root, "-c", "core.excludesFile=", "check-ignore", "--no-index", "--stdin", "-z"]
        answer = subprocess.run(command, input=input_data, capture_output=True, check=False)
        assert answer.returncode in (0, 1), answer.stderr
        ignored = set(os.fsdecode(answer.stdout).split("\0")) - {""}
        return [
            (self._texts[file.partition("/")[0]], file.partition("/")[2], "ignored" if file in ignored else "kept")
            for file, result in self._results.items()
            if result != (file in ignored)
        ]


@pytest.fixture
def compared(tmp_path: Path) -> Compared:
    return Compared(tmp_path)


def test_pattern_table_matches_git(compared: Compared) -> None:
    for text, files in CASES.items():
        for ending in ("", "\n", "\r\n"):
            compared.add(text.replace("|", ending or "\n") + ending, files)
    assert compared.differences() == []


def test_character_classes_match_git(compared: Compared) -> None:
    names = [chr(code) for code in range(1, 128) if chr(code) not in "./"]
    for name in _CLASSES:
        compared.add(f"[[:{name}:]]\n", names)
        compared.add(f"x[![:{name}:]]\n", [f"x{char}" for char in names])
    assert compared.differences() == []


@pytest.mark.parametrize("seed", range(4))
def test_random_patterns_match_git(compared: Compared, seed: int) -> None:
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
    """Return random files; none has the path of another's folder."""
    files: set[str] = set()
    folders: set[str] = set()
    for _ in range(12):
        parts = lot.choices(_NAMES, k=lot.randint(1, 4))
        parents = {"/".join(parts[:end]) for end in range(1, len(parts))}
        if not parents & files and "/".join(parts) not in folders:
            files.add("/".join(parts))
            folders |= parents
    return files


@pytest.mark.parametrize("line", ["!", "/", "[a", "a\\", "[[:nothing:]]", "a\0b", "!/", "\ud800"])
def test_settings_reject_patterns_that_never_match(line: str) -> None:
    with pytest.raises(ValueError):
        patterns.parse_patterns(["*.md", line])


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
def test_last_matching_pattern_decides_coverage(lines: list[str], expected: set[str]) -> None:
    chosen = patterns.parse_patterns(lines)
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
def test_patterns_with_many_stars_match_quickly(line: str) -> None:
    hostile = patterns.parse_ignore_file([line])
    began = time.process_time()
    for path in ("a" * 250, "/".join(["a" * 10] * 100), "/".join("a" * 2_000)):
        assert hostile.decides(path, folder=False) is None
    assert time.process_time() - began < 1
