"""The process that makes embeddings: its lines of output, its permissions, and its end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from catchment.ledger import Ledger
from catchment.runtime.home import Home
from tests.ledger.world import Clock, World, content, delivered, note

pytestmark = pytest.mark.long

_NOTES = 150
_COMMAND = [sys.executable, "-P", "-m", "catchment.search.meaning"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with many passages without embeddings in its library."""
    home = Home(tmp_path_factory.mktemp("prepared")).make()
    with closing(Ledger.open(home.database_url)) as ledger:
        world = World(home.database_url, Clock(), ledger)
        texts = [f"The keeper of lamp {n} counts {n * 7} boats." for n in range(_NOTES)]
        for text in texts:
            world.see(note(f"{content(text)}.md", content(text)))
        batch = world.claim(_NOTES)
        ledger.queue.deliver(
            batch.token, [delivered(job.id, text) for job, text in zip(batch.jobs, texts, strict=True)]
        )
    return home.path


@pytest.fixture
def home(prepared: Path, tmp_path: Path) -> Home:
    return Home(shutil.copytree(prepared, tmp_path / "home"))


@contextmanager
def _process(home: Home) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "CATCHMENT_HOME": str(home.path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(_COMMAND, stdin=pipe, stdout=pipe, env=environment, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _reports(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield the reports, and give a permission whenever the process waits for one."""
    assert process.stdin is not None
    assert process.stdout is not None
    for line in process.stdout:
        if report := json.loads(line):
            yield report
        else:
            process.stdin.write("\n")
            process.stdin.flush()


def _vectors(home: Home) -> set[tuple[int, int]]:
    """Return the ID and the chunk of each vector."""
    with closing(Ledger.inspect(home.database_url)) as ledger:
        space = ledger.embeddings.wanted()
        rows = [] if space is None else [row for part in ledger.embeddings.vectors(space, 0) for row in part]
        return {(row[0], row[2]) for row in rows}


def test_process_reports_each_transaction_and_exits(home: Home) -> None:
    with _process(home) as process:
        reports = list(_reports(process))
        assert process.wait() == 0
    done = [report["done"] for report in reports]
    assert (done[0], done[-1]) == (0, _NOTES)
    assert done == sorted(done)
    assert len(done) > 3
    assert {report["total"] for report in reports} == {_NOTES}
    assert len(_vectors(home)) == _NOTES


def test_killed_process_is_continued_without_repetition(home: Home) -> None:
    with _process(home) as process:
        assert next(report for report in _reports(process) if report["done"])
        process.kill()
    before = _vectors(home)
    assert 0 < len(before) < _NOTES
    with _process(home) as process:
        first, *_ = _reports(process)
    assert first["done"] == len(before)
    after = _vectors(home)
    assert before < after
    assert len(after) == len({chunk for _, chunk in after}) == _NOTES


def test_process_waits_for_each_permission(home: Home) -> None:
    with _process(home) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["done"] == 0
        assert json.loads(process.stdout.readline()) == {}
        watched = psutil.Process(process.pid)
        used = sum(watched.cpu_times()[:2])
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        assert sum(watched.cpu_times()[:2]) - used < 0.1
        assert watched.nice() == 10
    assert _vectors(home) == set()


def test_process_exits_when_its_input_is_closed(home: Home) -> None:
    with _process(home) as process:
        assert process.stdin is not None
        assert next(_reports(process))["done"] == 0
        process.stdin.close()
        assert process.wait(60) == 1


def test_home_without_a_library_has_nothing_to_embed(tmp_path: Path) -> None:
    with _process(Home(tmp_path)) as process:
        assert list(_reports(process)) == []
        assert process.wait() == 0


def test_process_reports_why_there_is_no_model(home: Home) -> None:
    with closing(Ledger.open(home.database_url)) as ledger:
        ledger.embeddings.setting = "off"
    with _process(home) as process:
        assert list(_reports(process)) == [{"off": "search by meaning: off; switch it on with `catchment model use`"}]
        assert process.wait() == 0
