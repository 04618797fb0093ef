"""Leave a shared library, or take out a host that does not return."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from catchment.audit import chain
from catchment.errors import BadInput, NotFound, Refused
from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership, own_login, queue_for
from catchment.sync.revoke import clear_for_other_hosts
from deployments.actions.desk import Desk
from deployments.server.client import Client, api, everything
from deployments.server.environment import POOL
from deployments.server.running import kept_down, shared_server
from deployments.sources.placement import tag_of
from deployments.sources.sources_file import SourcesFile

_OF_SOURCE = "source"


def leave(desk: Desk, actor: str, reason: str = "") -> bool:
    """Take this home out. Return whether it keeps the library, because it was the last host; else its copies are deleted.

    May be called again after an interruption. Raises NotFound if it has not joined, Refused while Catchment runs or sources
    are defined here, TryAgain if the server or the ledger does not respond.
    """
    home = desk.home
    membership = _joined(home)
    _require_no_sources(entry.name for entry in SourcesFile.load(home.sources_file).entries)
    with kept_down(home, "leave"):
        # A former call that was interrupted may have forgotten the library, which is no SQLite file.
        is_owner = not home.database_url.startswith("sqlite") and _leave_library(home, membership, actor, reason)
        if home.database_url.startswith("sqlite"):
            _take_up_own(home, actor, reason)
        if membership.login == f"file:{own_login(home)}":
            own_login(home).unlink(missing_ok=True)
        if str(home.authorities) not in home.named_database:
            home.authorities.unlink(missing_ok=True)
        # Until here, the same command completes an interrupted one.
        home.membership.unlink()
    return is_owner


def _leave_library(home: Home, membership: Membership, actor: str, reason: str) -> bool:
    with closing(Ledger.open(home)) as ledger:
        is_owner = ledger.hosts.is_owned()
        if not is_owner:
            is_owner = _leave_hosts(home, ledger, membership, actor, reason)
    if not is_owner:
        _delete_copies(home)
        home.use_database("")
    return is_owner


def _leave_hosts(home: Home, ledger: Ledger, membership: Membership, actor: str, reason: str) -> bool:
    """Leave the hosts of the ledger. Return whether this home has it to itself."""
    with api(shared_server(home, membership)) as client:
        me = ledger.hosts.mine()
        # A host that was taken out may have left its name to another one.
        if me or membership.name not in {host.name for host in ledger.hosts.all()}:
            rows = _deployments(client, membership.name)
            # The deployment of a source that was removed while Catchment was stopped is deleted now.
            present = {source.name for source in ledger.sources.all()}
            _require_no_sources(row["name"] for row in _sources(rows) if row["name"] in present)
            replace(membership, unfinished="leave").record(home)
            _clear(client, membership.name, rows)
        if me:
            clear_for_other_hosts(home, ledger)
            ledger.hosts.leave(actor, reason)
    return ledger.hosts.is_owned()


def _take_up_own(home: Home, actor: str, reason: str) -> None:
    """Sign the history of this home alone, in place of that of the hosts."""
    with closing(Ledger.open(home)) as ledger:
        ledger.history.note("library left", actor, reason)
        chain.take_up(home, ledger, "left")


def _require_no_sources(names: Iterable[str]) -> None:
    if listed := ", ".join(sorted(names)):
        raise Refused(f"leave: {listed} run here; move them (`catchment sources move` on another host) or remove them")


def take_out(desk: Desk, name: str, actor: str, reason: str = "") -> list[str]:
    """Take out another host, which no longer answers. Return the sources that it defined, which stay on the server.

    Raises NotFound, Refused if the host still answers, TryAgain.
    """
    membership = _joined(desk.home)
    if name == membership.name:
        raise BadInput(f"leave: this is {name}; omit the name to take this host out")
    with desk.writing() as ledger, api(shared_server(desk.home, membership)) as client:
        rows = _deployments(client, name)
        try:
            ledger.hosts.leave(actor, reason, name=name)
        except NotFound:
            # A former call may have been interrupted after it.
            if not rows and client.get(_queue(name)).is_missing:
                raise
        waiting = _sources(rows)
        _clear(client, name, [row for row in rows if row not in waiting], waiting)
        return sorted(row["name"] for row in waiting)


def _joined(home: Home) -> Membership:
    if (membership := Membership.of(home)) is None:
        raise NotFound("this home runs alone; it becomes a host with `catchment join`")
    return membership


def _deployments(client: Client, name: str) -> list[dict[str, Any]]:
    return everything(client, "deployments", {"deployments": {"tags": {"all_": [tag_of(name)]}}})


def _sources(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if _OF_SOURCE in row["tags"]]


def _clear(client: Client, name: str, rows: list[dict[str, Any]], remaining: Collection[dict[str, Any]] = ()) -> None:
    """Delete deployments of a host, and its queue unless a remaining deployment uses it."""
    for row in rows:
        client.delete(f"/deployments/{row['id']}").raise_unless_missing()
    if not any(row["work_queue_name"] == queue_for(name) for row in remaining):
        client.delete(_queue(name)).raise_unless_missing()


def _queue(name: str) -> str:
    return f"/work_pools/{POOL}/queues/{quote(queue_for(name))}"


def _delete_copies(home: Home) -> None:
    """Delete the data of the library on this disk: parsed and raw content, plans, and copies of repositories."""
    for base in (home.cache, home.raw):
        for file in home.path.glob(f"{base.name}*"):
            file.unlink(missing_ok=True)
    for folder in (home.plans, home.copies("")):
        shutil.rmtree(folder, ignore_errors=True)
