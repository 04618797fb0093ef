"""Fixtures that run the command line, in this process or in a separate one, and homes with prepared ledgers."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from catchment.errors import FailureClass, Reason, SkipReason
from catchment.ledger import Delivered, FailureInfo, Ledger
from catchment.model import Chunk, Document, Entity, EntityKind, Extraction, Item, Link, LinkKind, Skip, Upsert
from catchment.runtime.home import Home
from catchment.runtime.process import alive, identity
from console.main import main

NOTES = {
    "Bees/Swarm.md": "A swarm left the hive in May, see [[Hive]]. #bees #spring",
    "Hive.md": "The hive stands behind the \x1b[31mred\x1b[0m shed. \x1b]0;owned\x07 It is quiet in winter. #bees",
}


@dataclass(frozen=True)
class Response:
    """Exit code and output of one command line."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out, self
        return json.loads(self.out)


Cli = Callable[..., Response]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a home that does not exist yet; remove settings for colours and width."""
    folder = tmp_path / "state"
    monkeypatch.setenv("CATCHMENT_HOME", str(folder))
    for name in ("CATCHMENT_DATABASE_URL", "COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def cli(state: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    """Run a command line in this process."""

    def run(*arguments: str) -> Response:
        capsys.readouterr()
        code = main(arguments)
        out, err = capsys.readouterr()
        return Response(code, out, err)

    yield run


@pytest.fixture
def process(state: Path) -> Cli:
    """Run a command line, or a script that calls it, in a separate process."""

    def run(*arguments: str, script: str | None = None, **environment: str) -> Response:
        how = ["-c", script] if script else ["-m", "console"]
        done = subprocess.run(
            [sys.executable, *how, *arguments],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Response(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """A small vault on disk."""
    folder = tmp_path / "Vault"
    for name, text in NOTES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / ".obsidian").mkdir()
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 cut")
    (folder / "later.md").write_text("not yet", encoding="utf-8")
    return folder


@pytest.fixture
def filled(prepared: Path, state: Path, vault: Path) -> Path:
    """Return a home with the source `notes`; its ledger has one item in each state.

    Two notes in the library, `broken.pdf` in quarantine, `later.md` to be tried again, `big.bin` skipped, `new.md` waiting.
    """
    shutil.copytree(prepared / "state", state)
    file = state / "sources.yaml"
    file.write_text(file.read_text().replace(str(prepared / "Vault"), str(vault)))
    return state


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the home that `filled` copies, because creating it takes longer than most tests."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "Vault" / ".obsidian").mkdir(parents=True)
    home = Home(folder / "state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CATCHMENT_HOME", str(home.path))
        patch.delenv("CATCHMENT_DATABASE_URL", raising=False)
        assert main(["add", "obsidian", str(folder / "Vault"), "--name", "notes"]) == 0
        ledger = Ledger.open(home.database_url)
    try:
        _fill(ledger)
    finally:
        ledger.close()
    return folder


def _fill(ledger: Ledger) -> None:
    source = ledger.sources.get("notes").id
    sync = ledger.syncs.begin(source, run="run-1", owner=identity(), code_version="0.1.0", alive=alive)
    names = [*NOTES, "broken.pdf", "later.md"]
    changes = [Upsert(Item(name, name.rpartition("/")[0], "v1", identity=name, size=9)) for name in names]
    too_large = Skip(Item("big.bin", "", "v1", size=10**9), SkipReason.TOO_LARGE)
    ledger.intake.record(sync.id, [*changes, too_large], {"": "seen"})
    batch = ledger.queue.claim(source, 10, owner=identity())
    jobs = {job.item.locator: job.id for job in batch.jobs}
    ledger.queue.deliver(batch.token, [_delivered(jobs[name], name, text) for name, text in NOTES.items()])
    error = FailureInfo(Reason.PARSE_ERROR, FailureClass.PERMANENT, "ParseError", "the PDF ends too early", "at parse")
    ledger.queue.fail(batch.token, jobs["broken.pdf"], error, retry_at=None)
    busy = FailureInfo(Reason.CONNECTOR_ERROR, FailureClass.TRANSIENT, "FetchFailed", "it was busy", retry_helps=True)
    ledger.queue.fail(batch.token, jobs["later.md"], busy, retry_at=datetime.now(UTC) + timedelta(hours=1))
    ledger.intake.record(sync.id, [Upsert(Item("new.md", "", "v1", identity="new"))], {})
    ledger.syncs.end(sync.id, "completed", {"succeeded": len(NOTES), "quarantined": 1, "retrying": 1, "skipped": 1})


def _delivered(job: int, name: str, text: str) -> Delivered:
    links = tuple(
        Link(LinkKind.WIKILINK, match[1], start=match.start(), end=match.end())
        for match in re.finditer(r"\[\[(.+?)\]\]", text)
    )
    tags = tuple(Entity(EntityKind.TAG, match[1], start=match.start()) for match in re.finditer(r"#(\w+)", text))
    extraction = Extraction((Chunk(0, len(text)),), links, tags)
    document = Document(text, "text/markdown", language="en", properties={"mood": "calm"})
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Delivered(job, digest, "1", document, extraction, Path(name).stem, datetime(2026, 5, 1, tzinfo=UTC), {})
