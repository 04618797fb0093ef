"""The kinds of sink and the class of each, imported when its kind is first used. No Prefect, and no SQL of the ledger.

A package registers a kind as an entry point `catchment.sinks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from catchment.contracts import Destination, Sink
from catchment.errors import BadInput, did_you_mean
from catchment.runtime import addresses, secret_references
from catchment.runtime.installation import SINKS, extensions
from catchment.runtime.system.disks import network_disk


def kinds() -> tuple[str, ...]:
    """Return the names of all kinds of sink."""
    return tuple(extensions(SINKS))


def is_folder(kind: str) -> bool:
    """Return whether the place of a sink of this kind is a folder. Raises BadInput for an unknown kind."""
    return bool(_class(kind).is_folder)


@contextmanager
def opened(kind: str, place: str, secret: str | None = None, *, create: bool = False) -> Iterator[Sink]:
    """Open a sink for the duration of the block. `secret`: the reference to its password.

    `create`: make its tables or folders. Raises BadInput for an invalid place, Refused if the place has other data,
    SinkUnavailable.
    """
    sink_class = _class(kind)
    # Refuses an address that the driver could read otherwise.
    host_elsewhere(kind, place)
    password = secret_references.resolve(secret) if secret else ""
    with closing(sink_class(place, password, create=create)) as sink:
        yield sink


@contextmanager
def exporting(place: Path) -> Iterator[Destination]:
    """Open a new file or folder for one export, which is complete or leaves no file.

    Raises Refused if it exists, SinkUnavailable if it cannot be written.
    """
    if place.suffix == ".jsonl":
        from sinks.shards import writing_file

        with writing_file(place) as sink:
            yield sink
    elif place.suffix == ".parquet":
        _class("parquet")  # which names the package that is missing
        from sinks.parquet import writing_parquet

        with writing_parquet(place) as sink:
            yield sink
    else:
        from sinks.folder import release

        with opened("folder", str(place), create=True) as sink:
            yield sink
        release(place)


def host_elsewhere(kind: str, place: str) -> str | None:
    """Return the hosts, or the network disk, of a place that are not this machine; None if there are none.

    Raises BadInput for an invalid place.
    """
    if is_folder(kind):
        disk = network_disk(Path(place))
        return f"a folder on {disk}" if disk else None
    if kind == "postgresql":
        return ", ".join(addresses.elsewhere(addresses.postgresql(place))) or None
    host = addresses.host_of(place)
    if host is None:
        raise BadInput(f"{kind}: not an address; see `catchment sinks add --help`")
    return None if addresses.is_loopback(host) else host


def _class(kind: str) -> Any:
    if (extension := extensions(SINKS).get(kind)) is None:
        remedy = did_you_mean(kind, kinds(), f"choose one of {', '.join(kinds())}")
        raise BadInput(f"unknown kind of sink {kind!r}; {remedy}")
    return extension.load()
