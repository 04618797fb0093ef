"""The connector in docs/connectors.md works as the page shows it, and fulfils the contract."""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from catchment.contracts import Connected, Connector
from catchment.errors import BadInput, SourceInvalid, SourceUnavailable, StillChanging, Vanished
from catchment.model import Checkpoint, Root
from connectors.contract.memory_ledger import MemoryLedger

PAGE = Path(__file__).parents[2] / "docs" / "connectors.md"
_FILE = r'^```python title="quotes/{}.py"\n(.*?)^```$'


def _loaded(name: str) -> ModuleType:
    code = re.search(_FILE.format(name), PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert code
    module = sys.modules[name] = ModuleType(name)
    exec(compile(code[1], f"{PAGE.name}: {name}.py", "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def quotes() -> Iterator[ModuleType]:
    """The module on the page."""
    yield _loaded("catchment_quotes")
    del sys.modules["catchment_quotes"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "quotes.json"
    _write(file, weir="The weir is high.", gauge="The gauge is low.")
    return file


@pytest.fixture
def connector(quotes: ModuleType, file: Path) -> Connector:
    made: Connector = quotes.QuotesSource(quotes.QuotesSourceSettings(**quotes.QuotesSourceSettings.located(str(file))))
    return made


def _write(file: Path, **texts: str) -> None:
    file.write_text(json.dumps(texts), encoding="utf-8")


def test_documented_connector_lists_and_fetches(connector: Connector, ledger: MemoryLedger) -> None:
    changes = ledger.sync(connector).changes
    assert isinstance(changes[0], Root) and isinstance(changes[-1], Checkpoint)
    assert ledger.documents() == {"weir.md": b"The weir is high.", "gauge.md": b"The gauge is low."}
    assert ledger.sync(connector).item_changes == []
    assert connector.probe() == "2 entries"


def test_documented_connector_reports_changes(connector: Connector, file: Path, ledger: MemoryLedger) -> None:
    ledger.sync(connector)
    _write(file, weir="The weir is low.", sluice="The sluice is new.")
    report = ledger.sync(connector)
    assert (report.new, report.changed, report.deleted) == ({"sluice.md"}, {"weir.md"}, {"gauge.md"})
    assert ledger.sync(connector).item_changes == []


def test_documented_connector_refuses_changed_items(connector: Connector, file: Path, ledger: MemoryLedger) -> None:
    ledger.sync(connector)
    listed = ledger.present()
    _write(file, weir="The weir is low.")
    assert isinstance(connector, Connected)
    connector.close()
    with pytest.raises(StillChanging):
        connector.fetch(listed["weir.md"].item)
    with pytest.raises(Vanished):
        connector.fetch(listed["gauge.md"].item)


def test_documented_connector_can_be_pickled(connector: Connector, ledger: MemoryLedger) -> None:
    copy: Connector = pickle.loads(pickle.dumps(connector))
    assert list(copy.changes(ledger.known())) == list(connector.changes(ledger.known()))


def test_documented_connector_reports_a_missing_source(
    connector: Connector, quotes: ModuleType, file: Path, ledger: MemoryLedger
) -> None:
    ledger.sync(connector)
    file.write_text("[]")
    with pytest.raises(SourceInvalid, match="; "):
        connector.probe()
    file.unlink()
    with pytest.raises(SourceUnavailable, match="; "):
        ledger.sync(connector)
    assert len(ledger.documents()) == 2
    with pytest.raises(BadInput, match="; "):
        quotes.QuotesSourceSettings.located(str(file))


def test_settings_of_the_documented_connector_have_titles(quotes: ModuleType) -> None:
    assert quotes.QuotesSourceSettings.model_json_schema()["properties"]["file"].keys() >= {"title", "description"}
