"""The contract suite for the example packages, and what else an example shows."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from catchment.contracts import Connector, P, Parsing, R
from catchment.errors import ItemError
from connectors import connector_class, problems
from connectors.contract.memory_ledger import MemoryLedger
from connectors.contract.suite import ConnectorContract
from flows.flow_form import flow_form
from tests.examples.packages import EXAMPLES


class ExampleContract(ConnectorContract):
    """The contract suite; a listed version is in memory until the next listing. `package`: the name of its folder."""

    package: ClassVar[str]
    keeps_versions = True
    proofs: ClassVar[Mapping[str, str]] = {
        "parsers": "example_contract.py::test_bytes_are_parsed_by_a_parser_process",
    }

    def test_package_adds_the_kind(self) -> None:
        assert problems() == []
        form = flow_form(self.kind)
        assert (form["name"], form["version"]) == (f"sync-{self.kind}", "1.0")
        cls = connector_class(self.kind)
        assert cls.manifest.level == "silver"
        assert not cls.settings.model_fields["assistants"].default

    def test_package_says_what_it_is_in_ten_lines(self) -> None:
        folder = EXAMPLES / self.package
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        lines = (folder / project["readme"]).read_text(encoding="utf-8").splitlines()
        assert lines[0] == f"# {project['name']}"
        assert len(lines) <= 12
        assert f"catchment add {self.kind} " in "\n".join(lines)

    def test_bytes_are_parsed_by_a_parser_process(self, connector: Connector, ledger: MemoryLedger) -> None:
        parsed: list[str] = []

        def parse(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
            parsed.append(f"{function.__module__}.{function.__qualname__}")
            return function(*args, **kwargs)

        assert isinstance(connector, Parsing)
        connector.parse = parse
        ledger.sync(connector)
        assert parsed

    def test_another_process_fetches_the_listed_version_or_refuses(self, place: Any, ledger: MemoryLedger) -> None:
        self.fill(place)
        ledger.sync(self._made(place), fetch=False)
        before = dict(ledger.present())
        self.change(place)
        later, refused = self._made(place), 0
        for row in before.values():
            try:
                later.fetch(row.item)
            except ItemError:
                refused += 1
        assert refused == 2
