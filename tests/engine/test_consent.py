"""Without consent a source is not read: before a sync, during a sync, and for every source type that contacts a host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from catchment.content import copies_in_memory
from catchment.contracts import Guarded, Known, Paced
from catchment.errors import LoginFailed, NoConsent
from catchment.ledger import WHOLE, Ledger
from catchment.model import Change, Item, Priority, RawContent
from catchment.pacing import HostLimits, Pace
from catchment.settings import Home, Policy
from catchment.sync import revoke
from catchment.sync.preflight import consented, scopes_of
from catchment.sync.source_sync import SourceSync, open_sync
from connectors import connector_class, kinds
from connectors.local_files import LocalFiles, LocalFilesSettings
from tests.hits import find_hits


class Letters(LocalFiles):
    """A folder in which `drafts` is a separate scope; it records every access."""

    kind: ClassVar[str] = "letters"
    fetch_in_parser: ClassVar[bool] = False
    with_drafts: bool = True
    asked: int = 0

    def scopes(self) -> Mapping[str, str]:
        return {"letters": "all letters"} | ({"drafts": "all drafts"} if self.with_drafts else {})

    def scope_of(self, locator: str) -> str:
        return "drafts" if locator.startswith("drafts/") else "letters"

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        self.asked += 1
        return super().changes(known, deep=deep)

    def fetch(self, item: Item) -> RawContent:
        self.asked += 1
        return super().fetch(item)


@pytest.fixture
def letters(tmp_path: Path) -> Letters:
    folder = tmp_path / "letters"
    (folder / "drafts").mkdir(parents=True)
    for n in range(3):
        (folder / f"{n}.md").write_text(f"Letter number {n}")
        (folder / "drafts" / f"{n}.md").write_text(f"Draft number {n}")
    return Letters(Letters.settings(root=folder))


@pytest.fixture
def ledger(home: Home) -> Iterator[Ledger]:
    with closing(Ledger.open(home.database_url)) as ledger:
        yield ledger


def agree(ledger: Ledger, *scopes: str, until: datetime | None = None) -> int:
    source = ledger.sources.put("letters", "letters", Priority.NORMAL)
    ledger.consents.give(source.id, scopes, "operator:anna", until)
    return source.id


def full_sync(home: Home, letters: LocalFiles) -> dict[str, int]:
    with open_sync(home, letters, "letters", Policy(), Priority.NORMAL) as sync:
        sync.discover()
        while (token := sync.claim(250)) is not None:
            sync.process(token)
        return sync.finish("completed")


def test_source_without_consent_is_not_listed(home: Home, letters: Letters, ledger: Ledger) -> None:
    with pytest.raises(NoConsent, match="no consent given; run: catchment consent give letters"):
        full_sync(home, letters)
    assert letters.asked == 0
    assert [(c.scope, c.state) for c in ledger.consents.all("letters")] == [("drafts", "asked"), ("letters", "asked")]
    assert ledger.syncs.last(ledger.sources.get("letters").id) is None
    agree(ledger, "letters", "drafts")
    assert full_sync(home, letters)["succeeded"] == 6


def test_settings_beyond_the_consent_prevent_reading(home: Home, letters: Letters, ledger: Ledger) -> None:
    agree(ledger, "letters")
    with pytest.raises(NoConsent, match=r"letters \(drafts\): no consent given"):
        full_sync(home, letters)
    assert letters.asked == 0
    letters.with_drafts = False
    assert full_sync(home, letters)["succeeded"] == 6
    assert [(c.scope, c.state) for c in ledger.consents.all("letters")] == [("letters", "given")]


def test_expired_consent_stops_reads_and_deletions(home: Home, letters: Letters, ledger: Ledger) -> None:
    agree(ledger, "letters", "drafts")
    full_sync(home, letters)
    agree(ledger, "letters", "drafts", until=datetime.now(UTC) - timedelta(seconds=1))
    asked = letters.asked
    with pytest.raises(NoConsent, match="consent expired"):
        full_sync(home, letters)
    assert letters.asked == asked
    assert len(find_hits(ledger, "number")) == 6


def test_consent_expiring_during_a_listing_ends_it(home: Home, letters: Letters, ledger: Ledger) -> None:
    number = agree(ledger, "letters", "drafts")
    with open_sync(home, letters, "letters", Policy(), Priority.NORMAL) as sync:
        ledger.consents.withdraw(number, {"drafts"}, "operator:anna")
        sync.discover()
        assert sync.permit.ended
        assert sync.claim(10) is None
        assert sync.finish("cancelled")["jobs"] == 0
    last = ledger.syncs.last(number)
    assert last is not None
    assert (last.outcome, last.error) == ("cancelled", "consent expired or was withdrawn; reading stopped")
    assert (ledger.intake.find("0.md"), ledger.intake.holds()) == ([], [])


def first_claim(sync: SourceSync) -> int:
    sync.discover()
    token = sync.claim(2)
    assert token is not None
    return token


def test_consent_expiring_between_batches_ends_the_sync(home: Home, letters: Letters, ledger: Ledger) -> None:
    number = agree(ledger, "letters", "drafts")
    with open_sync(home, letters, "letters", Policy(), Priority.NORMAL) as sync:
        token = first_claim(sync)
        sync.process(token)
        ledger.consents.withdraw(number, {"letters", "drafts"}, "operator:anna")
        asked = letters.asked
        assert sync.claim(2) is None
        for job in ledger.queue.jobs(source="letters"):
            assert sync.process_alone(job.job) is None
        assert sync.finish("cancelled")["succeeded"] == 2
    assert letters.asked == asked


def test_pause_ends_the_running_sync_and_the_next_one_continues(home: Home, letters: Letters, ledger: Ledger) -> None:
    number = agree(ledger, "letters", "drafts")
    with open_sync(home, letters, "letters", Policy(), Priority.NORMAL) as sync:
        token = first_claim(sync)
        ledger.sources.pause("letters", "operator:anna", "moving house")
        sync.process(token)
        assert sync.claim(2) is None
        assert sync.finish("cancelled")["succeeded"] == 2
    last = ledger.syncs.last(number)
    assert last is not None
    assert (last.outcome, "paused (moving house)" in str(last.error)) == ("cancelled", True)
    ledger.sources.resume("letters", "operator:anna")
    assert full_sync(home, letters)["succeeded"] == 4


def test_adding_local_files_implies_consent(home: Home, tmp_path: Path, ledger: Ledger) -> None:
    folder = LocalFiles(LocalFilesSettings(root=tmp_path))
    full_sync(home, folder)
    [consent] = ledger.consents.all("letters")
    assert (consent.scope, consent.state, consent.by) == (WHOLE, "given", "configuration")
    ledger.consents.withdraw(ledger.sources.get("letters").id, {WHOLE}, "operator:anna")
    with pytest.raises(NoConsent, match="deletion of revoked data"):
        full_sync(home, folder)


def test_sync_ends_when_its_source_is_removed_and_the_name_reused(home: Home, tmp_path: Path, ledger: Ledger) -> None:
    for name in ("wrong", "right"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.md").write_text(f"the {name} letters")
    wrong, right = (LocalFiles(LocalFilesSettings(root=tmp_path / name)) for name in ("wrong", "right"))
    with open_sync(home, wrong, "letters", Policy(), Priority.NORMAL) as sync:
        ledger.sources.remove("letters", "operator:anna", "the wrong folder")
        again = ledger.sources.put("letters", right.kind, Priority.NORMAL)
        ledger.consents.give(again.id, {WHOLE}, "operator:anna", None)
        sync.discover()
        assert sync.claim(10) is None
        assert sync.permit.ended
        assert sync.finish("cancelled")["jobs"] == 0
    assert full_sync(home, right)["succeeded"] == 1
    assert [hit.item for hit in find_hits(ledger, "letters")] == ["right.md"]
    assert ledger.intake.holds() == []


def test_sync_of_a_removed_source_can_finish_in_any_status(home: Home, tmp_path: Path, ledger: Ledger) -> None:
    folder = LocalFiles(LocalFilesSettings(root=tmp_path))
    with open_sync(home, folder, "letters", Policy(), Priority.NORMAL) as sync:
        ledger.sources.remove("letters", "operator:anna", "not wanted")
        sync.finish("completed")
    with open_sync(home, folder, "letters", Policy(), Priority.NORMAL):
        ledger.sources.remove("letters", "operator:anna", "not wanted")
    last = ledger.syncs.recent(limit=1)[0]
    assert (last.outcome, last.error) == ("cancelled", "its source was removed")
    with open_sync(home, folder, "letters", Policy(), Priority.NORMAL) as sync:
        ledger.sources.remove("letters", "operator:anna", "not wanted")
        again = ledger.sources.put("letters", folder.kind, Priority.NORMAL)
        ledger.consents.give(again.id, {WHOLE}, "operator:anna", None)
        sync.finish("failed", LoginFailed("the password was changed"))
        assert sync.outcome != "quarantined"
    assert ledger.sources.get("letters").state == "active"


class Unspoken(LocalFiles):
    """A host-based source type that does not declare consent."""

    def __init__(self, settings: LocalFilesSettings) -> None:
        super().__init__(settings)
        self.pace = Pace()

    def limits(self) -> HostLimits:
        return HostLimits("files.example.org")


def test_host_based_kind_needs_consent_by_default(tmp_path: Path, ledger: Ledger) -> None:
    connector = Unspoken(LocalFilesSettings(root=tmp_path))
    source = ledger.sources.put("unspoken", "unspoken", Priority.NORMAL)
    assert list(scopes_of(connector)) == [WHOLE]
    with pytest.raises(NoConsent):
        consented(ledger, source, connector)


@pytest.mark.parametrize("kind", kinds())
def test_every_host_based_kind_describes_its_data(kind: str) -> None:
    connector = connector_class(kind)
    if hasattr(connector, "limits"):
        assert hasattr(connector, "scopes") and hasattr(connector, "scope_of"), Guarded.__doc__
    else:
        assert not issubclass(connector, Guarded) or connector.manifest.runs_programs, Paced.__doc__


def test_page_is_replaced_after_the_proof_of_a_deletion(
    home: Home, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion may run in the process of the page, which would end in the middle of it."""
    source = ledger.sources.put("notes", "local_files", Priority.NORMAL)
    ledger.consents.give(source.id, frozenset({WHOLE}), "operator", None)
    prove, mark = revoke._prove, copies_in_memory.mark(home)

    def proved(*arguments: Any) -> revoke.PurgeProof:
        assert copies_in_memory.mark(home) == mark
        return prove(*arguments)

    monkeypatch.setattr(revoke, "_prove", proved)
    extent = revoke.Extent(frozenset({WHOLE}), lambda _locator: True, whole=True)
    assert revoke.revoke(home, ledger, source, extent, "operator").holds
    assert copies_in_memory.mark(home) != mark
