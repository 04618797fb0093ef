"""Measurements of a sync outside of transactions: its stages, its reads, the cache, and the delay of a change."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from catchment.errors import NotNow
from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.pacing.operator_rules import Rule
from catchment.settings import Home
from catchment.sync.source_sync import SourceSync, open_sync
from catchment.telemetry import catalogue
from catchment.telemetry.catalogue import Metric
from catchment.telemetry.tally import Figure
from connectors.local_files import LocalFiles, LocalFilesSettings


def opened(home: Home, folder: Path) -> AbstractContextManager[SourceSync]:
    connector = LocalFiles(LocalFilesSettings(root=folder))
    return open_sync(home, connector, "papers", LocalFiles.policy, Priority.NORMAL)


def figures(home: Home, metric: Metric) -> dict[tuple[str, ...], Figure]:
    with closing(Ledger.inspect(home)) as ledger:
        return {labels: one for (name, labels, *_), one in ledger.measures.totals().items() if name == metric.name}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.md").write_text(f"the text of {name}")
    return folder


def finish(sync: SourceSync) -> None:
    sync.discover()
    while (token := sync.claim(10)) is not None:
        sync.process(token)
    sync.finish("completed")


def test_stages_are_measured_for_each_item(home: Home, folder: Path) -> None:
    with opened(home, folder) as sync:
        finish(sync)
    stages = figures(home, catalogue.JOB_DURATION)
    assert {stage: one.n for (stage,), one in stages.items()} == {"normalize": 3, "extract": 3, "deliver": 3}
    assert all(one.total > 0 and sum(one.buckets) == 3 for one in stages.values())
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert figures(home, catalogue.BYTES_READ)[()].total == size
    assert {labels: one.total for labels, one in figures(home, catalogue.CACHE).items()} == {("miss",): 3}
    assert figures(home, catalogue.SAVE_TO_FOUND) == {}


def test_documents_that_a_stopped_run_parsed_are_hits_of_the_cache(
    home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catchment.sync.batch._WORTH_STORING_SECONDS", 0)
    with opened(home, folder) as sync:
        sync.discover()
        token = sync.claim(10)
        assert token is not None
        sync.normalize(token)
    with opened(home, folder) as sync:
        finish(sync)
    totals = {labels: one.total for labels, one in figures(home, catalogue.CACHE).items()}
    assert totals == {("miss",): 3, ("hit",): 3}
    assert figures(home, catalogue.JOB_DURATION)["normalize",].n == 3


def test_change_is_measured_from_its_event_to_the_library(home: Home, folder: Path) -> None:
    with opened(home, folder) as sync:
        finish(sync)
    (folder / "a.md").write_text("another text")
    with opened(home, folder) as sync:
        sync.follow(frozenset({"a.md"}), datetime.now(UTC) - timedelta(seconds=30))
        finish(sync)
    latency = figures(home, catalogue.SAVE_TO_FOUND)[()]
    assert latency.n == 1
    assert 30 <= latency.total < 50


def test_sync_that_a_rule_stops_is_counted_at_once(home: Home, folder: Path) -> None:
    with opened(home, folder) as sync:
        finish(sync)
    with closing(Ledger.inspect(home)) as ledger:
        ledger.throttles.put("all", Rule(paused=True), "ada", "")
    with pytest.raises(NotNow), opened(home, folder):
        pass
    assert figures(home, catalogue.LIMITED)["rule",].total == 1
