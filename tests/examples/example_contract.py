"""The rules of the connector contract, for the example packages."""

from __future__ import annotations

import pickle
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from catchment.contracts import Connected, Connector
from catchment.errors import ItemError, SourceError
from catchment.model import Checkpoint, Root, Upsert
from connectors import connector_class, problems
from flows.flow_form import flow_form
from tests.connectors.memory_ledger import MemoryLedger
from tests.examples.packages import EXAMPLES


@pytest.mark.usefixtures("_installed")
class ExampleContract:
    """Tests with a small source of four items, which a subclass describes.

    Attributes:
        keeps_versions: Whether a listed version can still be fetched after later changes.
        is_sized: Whether items are listed with their size.
    """

    package: ClassVar[str]
    kind: ClassVar[str]
    keeps_versions: ClassVar[bool] = True
    is_sized: ClassVar[bool] = True

    def fill(self, place: Any) -> None:
        """Make a source with four items."""
        raise NotImplementedError

    def settings(self, place: Any) -> dict[str, Any]:
        """Return the settings of this source."""
        raise NotImplementedError

    def change(self, place: Any) -> None:
        """Add one item, edit one, and delete one."""
        raise NotImplementedError

    def lose(self, place: Any) -> None:
        """Make the source unreachable."""
        raise NotImplementedError

    @pytest.fixture
    def place(self, tmp_path: Path) -> Any:
        return tmp_path

    @pytest.fixture
    def connector(self, place: Any) -> Iterator[Connector]:
        self.fill(place)
        made = self._made(place)
        yield made
        assert isinstance(made, Connected)
        made.close()

    def _made(self, place: Any) -> Connector:
        cls = connector_class(self.kind)
        return cls(cls.settings(**self.settings(place)))

    def test_package_adds_the_kind(self) -> None:
        assert problems() == []
        form = flow_form(self.kind)
        assert (form["name"], form["version"]) == (f"sync-{self.kind}", "1.0")

    def test_package_says_what_it_is_in_ten_lines(self) -> None:
        folder = EXAMPLES / self.package
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        lines = (folder / project["readme"]).read_text(encoding="utf-8").splitlines()
        assert lines[0] == f"# {project['name']}"
        assert len(lines) <= 12
        assert f"catchment add {self.kind} " in "\n".join(lines)

    def test_root_comes_first_and_checkpoint_last(self, connector: Connector, ledger: MemoryLedger) -> None:
        changes = list(connector.changes(ledger.known()))
        assert isinstance(changes[0], Root)
        assert isinstance(changes[-1], Checkpoint)
        assert sum(isinstance(change, Root) for change in changes) == 1

    def test_second_and_deep_listing_report_no_changes(self, connector: Connector, ledger: MemoryLedger) -> None:
        assert len(ledger.sync(connector).item_changes) == 4
        assert ledger.sync(connector).item_changes == []
        assert ledger.sync(connector, deep=True).item_changes == []

    def test_listing_after_changes_is_followed_by_an_empty_one(
        self, connector: Connector, place: Any, ledger: MemoryLedger
    ) -> None:
        ledger.sync(connector)
        self.change(place)
        report = ledger.sync(connector)
        assert (len(report.new), len(report.changed), len(report.deleted)) == (1, 1, 1)
        assert ledger.sync(connector).item_changes == []

    def test_next_listing_completes_an_interrupted_one(
        self, connector: Connector, place: Any, ledger: MemoryLedger
    ) -> None:
        ledger.sync(connector)
        self.change(place)
        for cut in range(len(list(connector.changes(ledger.known())))):
            ledger.sync(connector, cut=cut)
        ledger.sync(connector)
        fresh = MemoryLedger()
        fresh.sync(connector)
        assert ledger.documents() == fresh.documents()

    def test_every_listed_item_can_be_fetched(self, connector: Connector, ledger: MemoryLedger) -> None:
        for change in ledger.sync(connector, fetch=False).item_changes:
            assert isinstance(change, Upsert)
            raw = connector.fetch(change.item)
            assert change.item.size == (len(raw.data) if self.is_sized else None)
            assert raw.name
            assert raw.modified == change.item.modified

    def test_fetch_returns_the_listed_version_or_an_item_error(
        self, connector: Connector, place: Any, ledger: MemoryLedger
    ) -> None:
        ledger.sync(connector, fetch=False)
        before = dict(ledger.present())
        self.change(place)
        refused = 0
        for row in before.values():
            try:
                connector.fetch(row.item)
            except ItemError:
                refused += 1
        assert refused == (0 if self.keeps_versions else 2)
        later, refused = self._made(place), 0
        for row in before.values():
            try:
                later.fetch(row.item)
            except ItemError:
                refused += 1
        assert refused == 2

    def test_connector_and_changes_can_be_pickled(self, connector: Connector, ledger: MemoryLedger) -> None:
        changes = list(connector.changes(ledger.known()))
        copy: Connector = pickle.loads(pickle.dumps(connector))
        assert list(copy.changes(ledger.known())) == changes
        assert pickle.loads(pickle.dumps(changes)) == changes

    def test_probe_returns_one_line(self, connector: Connector) -> None:
        assert connector.probe() == "4 entries"

    def test_lost_source_raises_an_error_and_keeps_all_items(
        self, connector: Connector, place: Any, ledger: MemoryLedger, tmp_path: Path
    ) -> None:
        ledger.sync(connector)
        self.lose(place)
        later = self._made(place)
        for call in (
            later.probe,
            lambda: ledger.sync(connector),
            lambda: later.fetch(next(iter(ledger.present().values())).item),
        ):
            with pytest.raises(SourceError, match=r"; ") as raised:
                call()
            assert str(tmp_path) not in str(raised.value)
        assert len(ledger.documents()) == 4

    def test_every_setting_has_a_title_and_description(self) -> None:
        settings = connector_class(self.kind).settings
        schema = settings.model_json_schema()
        own = set(schema["properties"]) - {"priority", "retry", "cache", "limits", "resources", "preset"}
        assert all(schema["properties"][name].keys() >= {"title", "description"} for name in own)
        assert settings.model_fields.keys() >= {*settings.identity}
        assert not settings.model_fields["assistants"].default
