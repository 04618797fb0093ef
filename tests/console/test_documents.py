"""Commands, options and links that the documents name exist."""

from __future__ import annotations

import re
import shlex
import tomllib
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from console.main import application
from tests.golden.record import walk
from tests.project_files import project_files

PROJECT = Path(__file__).parents[2]
DOCUMENTS = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
LINKED = [*DOCUMENTS, PROJECT / "CONTRIBUTING.md", PROJECT / "CHANGELOG.md"]
_NAMED = re.compile(r"`(catchment [^`]+)`|^(?:\$ )?(catchment [^#\n]+)", re.MULTILINE)
ROOT = typer.main.get_command(application())


def named(document: Path) -> list[str]:
    whole = re.sub(r"\\\n *", "", document.read_text(encoding="utf-8"))
    return [inline or shown for inline, shown in _NAMED.findall(whole)]


def wrong(words: list[str]) -> str | None:
    """Return the first unknown command or option of a command line. Arguments are not checked."""
    command: Any = ROOT
    options = {name for parameter in command.params for name in parameter.opts} | {
        "--help",
        "-h",
        "--install-completion",
    }
    for word in words:
        inner = getattr(command, "commands", {})
        if word in inner:
            command = inner[word]
            options |= {name for parameter in command.params for name in parameter.opts}
        elif word not in options if word.startswith("-") else inner:
            return word
    return None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_that_a_document_names_is_there(document: Path) -> None:
    lines = [shlex.split(line.replace("…", "").replace("; ", " ; "), comments=True)[1:] for line in named(document)]
    alone = [list(takewhile(lambda word: word not in ("|", "&&", ";"), line)) for line in lines]
    assert [(line, word) for line in alone if (word := wrong(line))] == []


def test_a_command_that_is_not_there_is_found_out() -> None:
    assert wrong(["sources", "ad"]) == "ad"
    assert wrong(["status", "--verbose"]) == "--verbose"
    assert wrong(["sources", "add", "obsidian", "~/Vault", "--name", "notes"]) is None


HIDDEN = [path for path, command in walk(ROOT, "catchment") if command.hidden]
_OLD = re.compile(
    rf"\b(?:{'|'.join(HIDDEN)})\b|`(?:{'|'.join(path.removeprefix('catchment ') for path in HIDDEN if path.count(' ') > 1)})\b"
)
_TEXTS = (".py", ".md", ".html", ".js", ".yaml", ".yml", ".toml", "Makefile")


def names_of_old_commands(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if _OLD.search(line)]


def test_no_text_names_a_replaced_command() -> None:
    texts = [file for file in project_files() if file.endswith(_TEXTS) and not file.startswith(("tests/", "CHANGELOG"))]
    found = {file: names_of_old_commands((PROJECT / file).read_text(errors="replace")) for file in sorted(texts)}
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_replaced_command_in_a_text_is_detected() -> None:
    assert names_of_old_commands("run: catchment doctor --mend") and names_of_old_commands("see `sources add`")
    assert not names_of_old_commands("run: catchment check --mend, or `sources list`; the artifact `health`")


_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(document: Path) -> set[str]:
    """Return the anchors of the headings of a document, as GitHub generates them."""
    headings = _HEADING.findall(document.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(document: Path) -> list[str]:
    """Return the broken links of a document."""
    links = _LINK.findall(document.read_text(encoding="utf-8"))
    targets = [(document.parent / file if file else document, anchor) for file, anchor in links]
    return [
        f"{target.name}#{anchor}"
        for target, anchor in targets
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]


@pytest.mark.parametrize("document", LINKED, ids=lambda path: path.name)
def test_links_of_a_document_lead_to_files_and_headings(document: Path) -> None:
    assert broken(document) == []


def test_broken_link_is_reported(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("# Title\n\n[a](page.md#title) [b](#tile) [c](other.md) [d](https://example.org/x.md)\n")
    assert broken(document) == ["page.md#tile", "other.md#"]


def test_readme_and_site_list_each_page_under_the_same_kind() -> None:
    site = tomllib.loads((PROJECT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    kinds: dict[str, set[str]] = {}
    for section in site[1:]:
        ((kind, pages),) = section.items()
        kinds[kind] = {page for entry in pages for page in entry.values() if not page.startswith("tests/")}
    index, kind = PROJECT.joinpath("README.md").read_text(encoding="utf-8").partition("## Read on\n")[2], ""
    listed: dict[str, set[str]] = {}
    for line in index.splitlines():
        if line.startswith("| "):
            kind = re.search(r"\*\*(.+?)\*\*", line)[1] if "**" in line else kind  # type: ignore[index]
            listed.setdefault(kind, set()).update(file for file, _ in _LINK.findall(line))
    assert {kind: pages for kind, pages in listed.items() if kind} == kinds
    assert set().union(*kinds.values()) >= {f"docs/{page.name}" for page in (PROJECT / "docs").glob("*.md")}
