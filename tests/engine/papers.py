"""A source folder of papers and the operations on it that need no server."""

from __future__ import annotations

from pathlib import Path

from catchment.contracts import Connector
from catchment.ledger import Ledger, Source
from catchment.model import Priority
from catchment.settings import Home, Policy
from catchment.sync.plan import Plan, PlanFilter, make_plan
from catchment.sync.prove import Proven, prove, repair
from catchment.sync.source_sync import open_sync
from connectors.local_files import LocalFiles, LocalFilesSettings
from tests.documents import document_named


class Papers:
    """A source folder and the operations on it."""

    kind = "local_files"

    def __init__(self, home: Home, folder: Path) -> None:
        self.home = home
        self.folder = folder
        self.ledger = Ledger.open(home.database_url)
        self.policy = Policy()
        self.settings: dict[str, object] = {}

    @property
    def connector(self) -> Connector:
        return LocalFiles(LocalFilesSettings.model_validate({"root": self.folder} | self.settings))

    @property
    def source(self) -> Source:
        return self.ledger.sources.put("papers", self.kind, Priority.NORMAL)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def plan(self, *, deep: bool = False) -> Plan:
        return make_plan(self.home, self.ledger, self.source, self.connector, Policy(), deep=deep)

    def sync(self, plan: Plan | None = None) -> dict[str, int]:
        with open_sync(self.home, self.connector, "papers", self.policy, Priority.NORMAL) as sync:
            if plan is not None:
                sync.discovery.through = PlanFilter(plan, sync.progress)
            sync.discover(deep=plan is not None and plan.deep)
            while (token := sync.claim(250)) is not None:
                sync.process(token)
            return sync.finish("completed")

    def documents(self) -> dict[str, str]:
        names = [named.locator for named in self.ledger.library.names(self.source.id)]
        return {name: document_named(self.ledger, name).content.text.strip() for name in names}

    def prove(self, *, deep: bool = False) -> Proven:
        return prove(self.home, self.ledger, self.source, self.connector, Policy(), deep=deep)

    def repair(self, proven: Proven) -> int:
        return repair(self.ledger, self.source, proven, "anna")
