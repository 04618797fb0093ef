"""The flows. The module of a kind of source, such as `flows.obsidian` with `sync_obsidian`, is made from its connector."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _ModulesOfKinds(MetaPathFinder, Loader):
    """Finds the modules that have no file. Deployments, also older ones and those in files of users, name them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        package, _, kind = fullname.partition(".")
        is_kind = package == __name__ and kind.isidentifier() and not kind.startswith("_")
        return ModuleSpec(fullname, self) if is_kind else None

    def exec_module(self, module: ModuleType) -> None:
        from flows.source_flow import source_flow

        kind = module.__name__.partition(".")[2]
        setattr(module, f"sync_{kind}", source_flow(kind))


sys.meta_path.append(_ModulesOfKinds())
