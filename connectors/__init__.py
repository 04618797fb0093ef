"""The kinds of source, ours and those of other packages, and the connector class of each.

A package registers a kind as an entry point `catchment.connectors`. Its module is imported when the kind is first used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from catchment.errors import BadInput, CatchmentError, Refused, did_you_mean
from catchment.runtime.installation import CONNECTORS, OURS, READERS, SINKS, extensions, installed

if TYPE_CHECKING:
    from catchment.contracts import Connector, Manifest


def kinds() -> tuple[str, ...]:
    """Return the names of all kinds of source."""
    return tuple(extensions(CONNECTORS))


@cache
def connector_class(kind: str) -> type[Connector]:
    """Return the connector class for a kind of source.

    For an unknown kind, and one whose package cannot be used, it is a class that keeps the settings as they are written. Its
    sources cannot be read, and none can be added; both errors name the problem and the remedy.
    """
    from connectors.missing import missing

    try:
        return _loaded(kind)
    except CatchmentError as error:
        return missing(kind, str(error))


@dataclass(frozen=True, slots=True)
class KindOfSource:
    """A kind of source, with the version of its package, and why its sources cannot be read."""

    kind: str
    manifest: Manifest
    version: str
    problem: str | None


def described() -> list[KindOfSource]:
    """Return all kinds with their manifests."""
    return [KindOfSource(kind, connector_class(kind).manifest, version(kind), problem(kind)) for kind in kinds()]


def version(kind: str) -> str:
    """Return the version of the package of a kind of source."""
    extension = extensions(CONNECTORS).get(kind)
    return extension.version if extension else ""


def package_of(kind: str) -> str:
    """Return the name of the package of a kind of source; of an unknown kind, that of Catchment."""
    extension = extensions(CONNECTORS).get(kind)
    return extension.package if extension else OURS


def problem(kind: str) -> str | None:
    """Return why sources of a kind cannot be read, with the remedy; None if they can."""
    return getattr(connector_class(kind).settings, "problem", None)


def problems() -> list[str]:
    """Return the problems of all packages that add to Catchment, with the remedies."""
    others = [each for group in (SINKS, READERS) for each in installed(group) if each.package != OURS]
    texts = [each.problem or problem(each.point.name) for each in installed(CONNECTORS) if each.package != OURS]
    return [text for text in (*texts, *(each.refusal() for each in others)) if text]


def check_name(name: str) -> None:
    """Raise BadInput if a kind cannot have this name: its flow is the module `flows.NAME`."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name):
        raise BadInput(f"{name!r}: not a name of a kind; use lower-case letters, digits and _, a letter first")
    if Path(__file__).parents[1].joinpath("flows", f"{name}.py").exists():
        raise BadInput(f"{name}: the name of another flow; choose another name")


def _loaded(kind: str) -> type[Connector]:
    from catchment.contracts import Manifest
    from catchment.settings import SourceSettings

    if (extension := extensions(CONNECTORS).get(kind)) is None:
        remedy = did_you_mean(
            kind.replace("-", "_"), kinds(), f"choose one of {', '.join(kinds())}, or install its package"
        )
        raise BadInput(f"unknown kind of source {kind!r}; {remedy}")
    try:
        check_name(kind)
    except BadInput as error:
        raise Refused(f"{error} in {extension.package}, or uninstall it") from None
    connector: type[Connector] = extension.load()
    settings = getattr(connector, "settings", None)
    is_complete = all(hasattr(connector, name) for name in ("policy", "fetch_in_parser", "probe", "changes", "fetch"))
    has_settings = isinstance(settings, type) and issubclass(settings, SourceSettings) and hasattr(settings, "identity")
    has_manifest = isinstance(getattr(connector, "manifest", None), Manifest)
    if is_complete and has_settings and has_manifest and connector.kind == kind:
        return connector
    raise Refused(f"{kind}: {extension.package} has no complete connector of this kind; upgrade or uninstall it")
