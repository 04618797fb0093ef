"""The kinds of source and the connector class of each. A connector's module is imported when its kind is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from catchment.errors import BadInput, did_you_mean

if TYPE_CHECKING:
    from catchment.contracts import Connector

_CLASSES = {
    "local_files": "connectors.local_files:LocalFiles",
    "obsidian": "connectors.obsidian:Obsidian",
    "imap": "connectors.imap:Imap",
    "github": "connectors.github:GitHub",
    "web": "connectors.web.connector:WebConnector",
}


def kinds() -> tuple[str, ...]:
    """Return the names of all kinds of source."""
    return tuple(_CLASSES)


def connector_class(kind: str) -> type[Connector]:
    """Return the connector class for a kind of source. Raises BadInput, with the nearest name, for an unknown kind."""
    try:
        module, _, name = _CLASSES[kind].partition(":")
    except KeyError:
        remedy = did_you_mean(kind.replace("-", "_"), _CLASSES, f"choose one of {', '.join(_CLASSES)}")
        raise BadInput(f"unknown kind of source {kind!r}; {remedy}") from None
    connector: type[Connector] = getattr(import_module(module), name)
    return connector
