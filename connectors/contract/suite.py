"""The tests of the connector contract. A package's test file has a subclass of `ConnectorContract` for each kind of sample."""

from __future__ import annotations

import inspect
import pickle
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import pytest

from catchment.contracts import Connected, Connector, Guarded, Keeping, Paced, Windowed
from catchment.errors import ItemError, SourceError
from catchment.model import Checkpoint, Root, Tombstone, Upsert
from connectors import connector_class, problem
from connectors.contract.memory_ledger import MemoryLedger
from connectors.contract.quality import RULES, open_rules

_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)


class ConnectorContract:
    """Tests with a small source, which a subclass describes: `kind`, `fill`, `settings`, `change` and `lose`.

    `place` is a fixture: an empty folder, unless the subclass has its own, such as a server.

    Attributes:
        edits: How many items `change` edits: 0 if items cannot be edited.
        keeps_versions: Whether a listed version can still be fetched after later changes, without `Connected.close`.
        is_dated: Whether items have dates, if the kind is `Windowed`.
        pages: The documents, relative to the test file, with the settings and a paragraph about limits.
        proofs: For each rule that the suite cannot check: its test, as `FILE::NAME`, relative to the test file.
    """

    kind: ClassVar[str]
    edits: ClassVar[int] = 1
    keeps_versions: ClassVar[bool] = False
    is_dated: ClassVar[bool] = True
    pages: ClassVar[tuple[str, ...]] = ()
    proofs: ClassVar[Mapping[str, str]] = {}

    def fill(self, place: Any) -> None:
        """Make a source with four items."""
        raise NotImplementedError

    def settings(self, place: Any) -> dict[str, Any]:
        """Return the settings of this source."""
        raise NotImplementedError

    def change(self, place: Any) -> None:
        """Add one item, edit one, and delete one."""
        raise NotImplementedError

    def move(self, place: Any) -> None:
        """Rename or move one item; without this method, `proofs` names a test of the rule `moves`."""
        raise NotImplementedError

    def lose(self, place: Any) -> None:
        """Make the source unreachable."""
        raise NotImplementedError

    @pytest.fixture
    def place(self, tmp_path: Path) -> Any:
        folder = tmp_path / "place"
        folder.mkdir()
        return folder

    @pytest.fixture
    def ledger(self) -> MemoryLedger:
        return MemoryLedger()

    @pytest.fixture
    def connector(self, place: Any) -> Iterator[Connector]:
        self.fill(place)
        connector = self._made(place)
        yield connector
        if isinstance(connector, Connected):
            connector.close()

    def _made(self, place: Any) -> Connector:
        kind = connector_class(self.kind)
        return kind(kind.settings(**self.settings(place)))

    @pytest.fixture(autouse=True)
    def _only_rules_that_apply(self, request: pytest.FixtureRequest) -> None:
        if reason := problem(self.kind):
            pytest.fail(reason, pytrace=False)
        cls, name = connector_class(self.kind), request.function.__name__
        if any(name in rule.tests and key not in open_rules(cls) for key, rule in RULES.items()):
            pytest.skip(f"{self.kind}: exempt, or above its level")

    def test_each_rule_of_the_level_is_done_or_exempt(self) -> None:
        cls = connector_class(self.kind)
        unknown = {*cls.manifest.exempt, *self.proofs} - RULES.keys()
        assert not unknown, f"no such rules; see docs/connectors.md: {sorted(unknown)}"
        assert all(cls.manifest.exempt.values()), "an exemption needs a reason"
        bases = {base.__name__ for base in cls.__mro__}
        rules = {name for name in open_rules(cls) if not RULES[name].tests and RULES[name].kept_by not in bases}
        assert rules <= self.proofs.keys(), f"name a test in `proofs`, or exempt: {sorted(rules - self.proofs.keys())}"
        for rule, proof in self.proofs.items():
            file, _, name = proof.rpartition("::")
            own = Path(inspect.getfile(type(self)))
            path = own.parent / file if file else own
            assert path.is_file() and f"def {name}(" in path.read_text(encoding="utf-8"), f"{rule}: no test {proof}"

    def test_root_comes_first_and_checkpoint_last(self, connector: Connector, ledger: MemoryLedger) -> None:
        changes = list(connector.changes(ledger.known()))
        assert isinstance(changes[0], Root)
        assert isinstance(changes[-1], Checkpoint)
        assert sum(isinstance(change, Root) for change in changes) == 1

    def test_second_listing_reports_no_changes(self, connector: Connector, ledger: MemoryLedger) -> None:
        assert len(ledger.sync(connector).item_changes) == 4
        assert ledger.sync(connector).item_changes == []

    def test_listing_without_marks_changes_no_items(self, connector: Connector, ledger: MemoryLedger) -> None:
        ledger.sync(connector)
        ledger.marks.clear()
        report = ledger.sync(connector)
        assert (report.new, report.changed, report.deleted, report.fetched) == (set(), set(), set(), set())

    def test_deep_listing_of_unchanged_content_changes_no_items(
        self, connector: Connector, ledger: MemoryLedger
    ) -> None:
        ledger.sync(connector)
        report = ledger.sync(connector, deep=True)
        assert (report.new, report.changed, report.deleted, report.fetched) == (set(), set(), set(), set())

    def test_listing_after_changes_is_followed_by_an_empty_one(
        self, connector: Connector, place: Any, ledger: MemoryLedger
    ) -> None:
        ledger.sync(connector)
        self.change(place)
        report = ledger.sync(connector)
        assert (len(report.new), len(report.changed), len(report.deleted)) == (1, self.edits, 1)
        assert ledger.sync(connector).item_changes == []

    def test_every_listed_item_can_be_fetched(self, connector: Connector, ledger: MemoryLedger) -> None:
        for change in ledger.sync(connector, fetch=False).item_changes:
            assert isinstance(change, Upsert)
            raw = connector.fetch(change.item)
            assert change.item.size in (None, len(raw.data))
            assert raw.name
            assert raw.modified == change.item.modified

    def test_fetching_a_deleted_item_raises_an_item_error(
        self, connector: Connector, place: Any, ledger: MemoryLedger
    ) -> None:
        ledger.sync(connector, fetch=False)
        before, fresh = ledger.present(), MemoryLedger()
        fresh.sync(other := self._made(place))
        if isinstance(other, Connected):
            other.close()
        self.change(place)
        if isinstance(connector, Connected) and not self.keeps_versions:
            connector.close()  # Discard items read ahead.
        refused = 0
        for row in before.values():
            try:
                assert connector.fetch(row.item).data == fresh.documents()[row.item.locator]
            except ItemError:
                refused += 1
        assert refused == (0 if self.keeps_versions else 1 + self.edits)

    @pytest.mark.usefixtures("connector")
    def test_constructor_does_not_read_the_source(self, place: Any) -> None:
        self.lose(place)
        self._made(place)

    @pytest.mark.usefixtures("connector")
    def test_no_host_is_asked_before_consent(
        self, place: Any, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*arguments: object, **_: object) -> NoReturn:
            raise AssertionError(f"asks a host before consent: {arguments[-1]!r}")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        made = self._made(place)
        needs_consent = isinstance(made, Paced)
        if isinstance(made, Paced):
            made.limits()
        if isinstance(made, Guarded):
            needs_consent = bool(made.scopes())
        if not needs_consent:
            made.probe()
            ledger.sync(made)

    def test_probe_returns_one_line(self, connector: Connector) -> None:
        line = connector.probe()
        assert line
        assert "\n" not in line

    def test_missing_source_raises_an_error_and_keeps_all_items(
        self, connector: Connector, place: Any, ledger: MemoryLedger
    ) -> None:
        ledger.sync(connector)
        self.lose(place)
        with pytest.raises(SourceError, match=r"; "):
            connector.probe()
        with pytest.raises(SourceError, match=r"; "):
            ledger.sync(connector)
        assert len(ledger.documents()) == 4

    def test_source_lost_while_fetching_raises_a_source_error(
        self, connector: Connector, place: Any, ledger: MemoryLedger
    ) -> None:
        ledger.sync(connector, fetch=False)
        if isinstance(connector, Connected):
            connector.close()  # Discard items read ahead.
        if isinstance(connector, Keeping) and connector.folder:
            shutil.rmtree(connector.folder)
        self.lose(place)
        with pytest.raises(SourceError):
            connector.fetch(next(iter(ledger.present().values())).item)

    def test_errors_and_output_have_no_full_path_and_no_content(
        self,
        connector: Connector,
        place: Any,
        ledger: MemoryLedger,
        tmp_path: Path,
        capfd: pytest.CaptureFixture[str],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        ledger.sync(connector)
        contents = [data.decode(errors="ignore") for data in ledger.documents().values()]
        items = [row.item for row in ledger.present().values()]
        calls: list[Callable[[], object]] = [connector.probe, partial(ledger.sync, connector)]
        calls += [partial(connector.fetch, item) for item in items]
        messages = []
        for happens in (self.change, self.lose):
            happens(place)
            if isinstance(connector, Connected):
                connector.close()
            for call in calls:
                try:
                    call()
                except (ItemError, SourceError) as error:
                    messages.append(f"{error} {error.args}")
        assert messages
        messages += [*capfd.readouterr(), caplog.text]
        assert [text for text in messages if str(tmp_path) in text or any(map(text.__contains__, contents))] == []

    def test_every_setting_has_a_title_and_description(self) -> None:
        settings = connector_class(self.kind).settings
        schema = settings.model_json_schema()
        own = set(schema["properties"]) - {"priority", "retry", "cache", "limits", "resources", "preset"}
        assert own
        for name in own:
            assert schema["properties"][name].keys() >= {"title", "description"}
        assert settings.identity
        assert settings.model_fields.keys() >= {*settings.identity}

    def test_next_listing_completes_an_interrupted_one(
        self, connector: Connector, place: Any, ledger: MemoryLedger
    ) -> None:
        ledger.sync(connector)
        self.change(place)
        length = len(list(connector.changes(ledger.known())))
        for cut in range(length):
            ledger.sync(connector, cut=cut)
        ledger.sync(connector)
        fresh = MemoryLedger()
        fresh.sync(connector)
        assert ledger.documents() == fresh.documents()
        assert ledger.marks == fresh.marks

    def test_connector_and_changes_can_be_pickled(self, connector: Connector, ledger: MemoryLedger) -> None:
        copy: Connector = pickle.loads(pickle.dumps(connector))
        list(connector.changes(ledger.known()))  # A listing right after a change may list a folder twice.
        changes = list(copy.changes(ledger.known()))
        if isinstance(copy, Connected):
            copy.close()
        assert pickle.loads(pickle.dumps(changes)) == changes
        assert changes == list(connector.changes(ledger.known()))

    def test_moved_item_is_the_same_item(self, connector: Connector, place: Any, ledger: MemoryLedger) -> None:
        if type(self).move is ConnectorContract.move and "moves" in self.proofs:
            pytest.skip(self.proofs["moves"])
        ledger.sync(connector)
        before = ledger.present()
        self.move(place)
        changes = list(connector.changes(ledger.known()))
        (removed,) = [change.locator for change in changes if isinstance(change, Tombstone)]
        (added,) = [change for change in changes if isinstance(change, Upsert) and change.item.locator not in before]
        identity = before[removed].item.identity
        assert added.came_from == removed or (identity is not None and added.item.identity == identity)

    def test_windows_and_listings_report_equal_items(self, connector: Connector, ledger: MemoryLedger) -> None:
        assert isinstance(connector, Windowed)
        changes = list(connector.changes_between(ledger.known(), *_ALWAYS))
        assert isinstance(changes[0], Root)
        if not self.is_dated:
            assert changes[1:] == [Checkpoint()]
            return
        listed = connector.changes(ledger.known())
        assert [c for c in changes if isinstance(c, Upsert)] == [c for c in listed if isinstance(c, Upsert)]
        assert not any(isinstance(c, Upsert) for c in connector.changes_between(ledger.known(), _ALWAYS[0], _ALWAYS[0]))
        assert len(ledger.sync(connector, window=_ALWAYS).fetched) == 4
        assert ledger.marks == {}
        assert ledger.sync(connector).new == set()
        assert ledger.sync(connector, window=_ALWAYS).fetched == set()

    def test_pages_have_each_setting_and_the_limits(self) -> None:
        folder, cls = Path(inspect.getfile(type(self))).parent, connector_class(self.kind)
        text = "".join((folder / page).read_text(encoding="utf-8") for page in self.pages)
        own = [row.key for row in cls.settings.model_construct().rows() if not row.is_common]
        assert [key for key in own if f"`{key}`" not in text] == []
        assert "\n## Limits\n" in text or "Limits:" in text
        assert cls.manifest.place and cls.manifest.example
