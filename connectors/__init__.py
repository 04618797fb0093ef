"""Kinds of source. This table is all that has to know a new one; a connector's module is loaded when its kind is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from catchment.errors import BadInput

if TYPE_CHECKING:
    from catchment.contracts import Connector

_CLASSES = {
    "local_files": "connectors.local_files:LocalFiles",
    "obsidian": "connectors.obsidian:Obsidian",
    "imap": "connectors.imap:Imap",
    "github": "connectors.github:GitHub",
}


def kinds() -> tuple[str, ...]:
    """The kinds of source there are."""
    return tuple(_CLASSES)


def connector_class(kind: str) -> type[Connector]:
    """The connector for a kind of source. Raises BadInput, with the nearest name, for a kind that there is not."""
    try:
        module, _, name = _CLASSES[kind].partition(":")
    except KeyError:
        raise BadInput(_unknown(kind)) from None
    found: type[Connector] = getattr(import_module(module), name)
    return found


def _unknown(kind: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(kind.replace("-", "_"), _CLASSES, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(_CLASSES)}"
    return f"there is no kind of source called {kind!r}; {remedy}"
