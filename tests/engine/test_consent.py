"""Without consent nothing is read: before a sync, in the middle of one, and by every kind of source that asks a host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest

from catchment.contracts import Guarded, Known, Paced
from catchment.errors import LoginFailed, NoConsent
from catchment.ledger import Ledger
from catchment.model import Change, Item, Priority, RawContent
from catchment.pacing import HostLimits, Pace
from catchment.settings import Home, Policy
from catchment.sync.preflight import WHOLE, consented, scopes_of
from catchment.sync.session import open_sync
from connectors import connector_class, kinds
from connectors.local_files import LocalFiles, LocalFilesSettings


class Letters(LocalFiles):
    """A folder of which `drafts` is a scope of its own; it says when it is asked for anything."""

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


def test_a_source_that_nobody_agreed_to_is_not_even_listed(home: Home, letters: Letters, ledger: Ledger) -> None:
    with pytest.raises(NoConsent, match="no consent given; run: catchment consent give letters"):
        full_sync(home, letters)
    assert letters.asked == 0
    assert [(c.scope, c.state) for c in ledger.consents.all("letters")] == [("drafts", "asked"), ("letters", "asked")]
    assert ledger.syncs.last(ledger.sources.get("letters").id) is None
    agree(ledger, "letters", "drafts")
    assert full_sync(home, letters)["succeeded"] == 6


def test_settings_that_ask_for_more_than_was_agreed_to_read_nothing(
    home: Home, letters: Letters, ledger: Ledger
) -> None:
    agree(ledger, "letters")
    with pytest.raises(NoConsent, match=r"letters \(drafts\): no consent given"):
        full_sync(home, letters)
    assert letters.asked == 0
    letters.with_drafts = False
    assert full_sync(home, letters)["succeeded"] == 6
    assert [(c.scope, c.state) for c in ledger.consents.all("letters")] == [("letters", "given")]


def test_a_consent_that_has_ended_reads_nothing_more_and_deletes_nothing(
    home: Home, letters: Letters, ledger: Ledger
) -> None:
    agree(ledger, "letters", "drafts")
    full_sync(home, letters)
    agree(ledger, "letters", "drafts", until=datetime.now(UTC) - timedelta(seconds=1))
    asked = letters.asked
    with pytest.raises(NoConsent, match="consent expired"):
        full_sync(home, letters)
    assert letters.asked == asked
    assert len(ledger.library.search("number")) == 6


def test_consent_that_ends_in_the_middle_of_a_listing_ends_it(home: Home, letters: Letters, ledger: Ledger) -> None:
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


def test_consent_that_ends_between_two_batches_ends_the_sync(home: Home, letters: Letters, ledger: Ledger) -> None:
    number = agree(ledger, "letters", "drafts")
    with open_sync(home, letters, "letters", Policy(), Priority.NORMAL) as sync:
        sync.discover()
        token = sync.claim(2)
        assert token is not None
        sync.process(token)
        ledger.consents.withdraw(number, {"letters", "drafts"}, "operator:anna")
        asked = letters.asked
        assert sync.claim(2) is None
        for job in ledger.queue.jobs(source="letters"):
            assert sync.process_alone(job.id) is None
        assert sync.finish("cancelled")["succeeded"] == 2
    assert letters.asked == asked


def test_of_files_on_this_machine_adding_them_is_the_consent(home: Home, tmp_path: Path, ledger: Ledger) -> None:
    folder = LocalFiles(LocalFilesSettings(root=tmp_path))
    full_sync(home, folder)
    [consent] = ledger.consents.all("letters")
    assert (consent.scope, consent.state, consent.by) == (WHOLE, "given", "configuration")
    ledger.consents.withdraw(ledger.sources.get("letters").id, {WHOLE}, "operator:anna")
    with pytest.raises(NoConsent, match="deletion of revoked data"):
        full_sync(home, folder)


def test_a_sync_of_a_source_that_was_removed_ends_also_when_there_is_another_of_its_name(
    home: Home, tmp_path: Path, ledger: Ledger
) -> None:
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
    assert [hit.item for hit in ledger.library.search("letters")] == ["right.md"]
    assert ledger.intake.holds() == []


def test_a_sync_whose_source_is_removed_may_end_in_any_way(home: Home, tmp_path: Path, ledger: Ledger) -> None:
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
    """A kind that asks a host, and whose author forgot consent."""

    def __init__(self, settings: LocalFilesSettings) -> None:
        super().__init__(settings)
        self.pace = Pace()

    def limits(self) -> HostLimits:
        return HostLimits("files.example.org")


def test_a_kind_that_asks_a_host_needs_consent_even_if_its_author_forgot_it(tmp_path: Path, ledger: Ledger) -> None:
    connector = Unspoken(LocalFilesSettings(root=tmp_path))
    source = ledger.sources.put("unspoken", "unspoken", Priority.NORMAL)
    assert list(scopes_of(connector)) == [WHOLE]
    with pytest.raises(NoConsent):
        consented(ledger, source, connector)


@pytest.mark.parametrize("kind", kinds())
def test_every_kind_that_asks_a_host_says_what_it_reads(kind: str) -> None:
    connector = connector_class(kind)
    if hasattr(connector, "limits"):
        assert hasattr(connector, "scopes") and hasattr(connector, "scope_of"), Guarded.__doc__
    else:
        assert not issubclass(connector, Guarded), Paced.__doc__
