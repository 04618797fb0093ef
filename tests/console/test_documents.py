"""Whatever command a document names, there is one of that name with those options."""

from __future__ import annotations

import re
import shlex
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from console.main import application

PROJECT = Path(__file__).parents[2]
DOCUMENTS = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
_NAMED = re.compile(r"`(catchment [^`]+)`|^(?:\$ )?(catchment [^#\n]+)", re.MULTILINE)
ROOT = typer.main.get_command(application())


def named(document: Path) -> list[str]:
    whole = re.sub(r"\\\n *", "", document.read_text(encoding="utf-8"))
    return [inline or shown for inline, shown in _NAMED.findall(whole)]


def wrong(words: list[str]) -> str | None:
    """What there is not, of a command line; arguments may be anything."""
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
    lines = [shlex.split(line.replace("…", ""), comments=True)[1:] for line in named(document)]
    alone = [list(takewhile(lambda word: word not in ("|", "&&"), line)) for line in lines]
    assert [(line, word) for line in alone if (word := wrong(line))] == []


def test_a_command_that_is_not_there_is_found_out() -> None:
    assert wrong(["sources", "ad"]) == "ad"
    assert wrong(["status", "--verbose"]) == "--verbose"
    assert wrong(["sources", "add", "obsidian", "~/Vault", "--name", "notes"]) is None
