"""Errors in one step of a batch: the affected items are retried or quarantined, and the other items are unaffected."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import orjson
import pytest

from catchment.content.cache import Cache
from catchment.content.parsing import Read
from catchment.model import Item, RawContent
from catchment.settings import Home, Policy, Priority, RetryPolicy
from catchment.sync.batch import _key
from catchment.sync.source_sync import SourceSync, open_sync
from connectors.local_files import LocalFiles
from tests.engine.papers import Papers

POLICY = Policy(retry=RetryPolicy(backoff="immediate", attempts=3))


class Defective(LocalFiles):
    """Reads in the sync process and raises an error that connectors must not raise for one file."""

    fetch_in_parser: ClassVar[bool] = False

    def fetch(self, item: Item) -> RawContent:
        if "poison" in item.locator:
            raise KeyError("what the file says")
        return super().fetch(item)


@pytest.fixture
def papers(home: Home, tmp_path: Path) -> Papers:
    made = Papers(home, tmp_path / "papers")
    for n in range(5):
        made.write(f"{n}.md", f"The pump number {n} drips")
    return made


def sync(papers: Papers, connector: LocalFiles | None = None) -> dict[str, int]:
    with open_sync(papers.home, connector or papers.connector, "papers", POLICY, Priority.NORMAL) as opened:
        opened.discover()
        while (token := opened.claim(250)) is not None:
            opened.process(token)
        for job in [*opened.troubles, *opened.jobs_to_process_alone(10)]:
            while (trouble := opened.process_alone(job)) and trouble.retry_at is not None:
                pass
        return opened.finish("completed")


def put_in_cache(papers: Papers, entry: bytes) -> None:
    """Store this cache entry for every job, as an earlier sync would have."""
    with open_sync(papers.home, papers.connector, "papers", POLICY, Priority.NORMAL) as opened:
        opened.discover()
        keys = _claimed_keys(opened)
    with closing(Cache(papers.home.cache)) as cache:
        cache.put(dict.fromkeys(keys, entry))


def _claimed_keys(opened: SourceSync) -> list[str]:
    token = opened.claim(250)
    assert token is not None
    return [_key(job) for job in opened._open[token].jobs]


def waiting(papers: Papers) -> tuple[int, int]:
    left = papers.ledger.queue.waiting(papers.source.id)
    return left.ready, left.later


@pytest.mark.parametrize("entry", [b"", b"no JSON", b"[1, 2]\n", b"{}\n{}", b'["a", "b", "", "", 7, "parsed", {}]\n'])
def test_cache_entries_that_do_not_decode_are_parsed_again(papers: Papers, entry: bytes) -> None:
    put_in_cache(papers, entry)
    summary = sync(papers)
    assert (summary["succeeded"], summary["quarantined"], waiting(papers)) == (5, 0, (0, 0))


@pytest.mark.parametrize("document", [b"no JSON", orjson.dumps({"text": "without its other fields"})])
def test_cached_documents_that_do_not_decode_are_parsed_again(papers: Papers, document: bytes) -> None:
    put_in_cache(papers, Read("0" * 64, "x", "", "n", None, "parsed", {}, document).encode())
    summary = sync(papers)
    assert (summary["succeeded"], summary["quarantined"], waiting(papers)) == (5, 0, (0, 0))
    assert papers.documents()["3.md"] == "The pump number 3 drips"


def test_item_rejected_by_the_ledger_is_quarantined_alone(papers: Papers, home: Home) -> None:
    papers.write("poison.md", "The pump is poisoned")
    with closing(sqlite3.connect(home.path / "ledger.db")) as database, database:
        database.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON contents WHEN new.text LIKE '%poison%'"
            " BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    summary = sync(papers)
    assert (summary["succeeded"], summary["quarantined"], waiting(papers)) == (5, 1, (0, 0))
    [entry] = papers.ledger.quarantine.list()
    assert (entry.item, entry.reason) == ("poison.md", "unknown")
    assert papers.ledger.check(deep=True) == []


def test_item_that_triggers_a_connector_defect_is_quarantined_alone(papers: Papers) -> None:
    papers.write("poison.md", "The pump is poisoned")
    connector = Defective(Defective.settings(root=papers.folder))
    summary = sync(papers, connector)
    assert (summary["succeeded"], summary["quarantined"], waiting(papers)) == (5, 1, (0, 0))
    [entry] = papers.ledger.quarantine.list()
    assert entry.item == "poison.md" and "KeyError" in entry.message and "what the file says" not in entry.message
