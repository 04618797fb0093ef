"""The inbox: a web source that reads its addresses from a file of the home, and beside it a pushed source for single files.

Addresses are added one by one or in bulk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from catchment.content import pushed_files
from catchment.errors import BadInput, NoConsent, NotFound, Refused, TryAgain
from catchment.model import RawContent, count
from catchment.runtime import atomic_files
from catchment.settings import Home
from deployments.actions import consents, sources, syncs
from deployments.actions.desk import Desk
from deployments.actions.pushed import push_place
from deployments.actions.sources import NewSource

INBOX = "inbox"
"""The name of the source."""
FILES = "inbox-files"
"""The name of the source for files."""
MOST, _MOST_BYTES = 200_000, 20_000_000
"""Addresses of the inbox at most, and the size of its list. The connector reads no longer one."""


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The number of addresses by outcome; `run`: the sync that reads them, None if none could be started.

    `waiting`: number of added and known addresses on hosts without consent. They are listed and not read.
    """

    added: int
    known: int
    refused: int
    waiting: int
    run: str | None


@dataclass(frozen=True, slots=True)
class WebAddresses:
    """Addresses in their one spelling, with the host of each, and the number of texts that are not valid."""

    hosts: Mapping[str, str]
    refused: int


def listed(desk: Desk, addresses: Iterable[str]) -> WebAddresses:
    """Return the addresses that are valid. Raises BadInput if none is, with the problem of the first."""
    hosts: dict[str, str] = {}
    problems = []
    for text in addresses:
        try:
            address, host = desk.web_address(text)
            hosts[address] = host
        except BadInput as problem:
            problems.append(problem)
    if not hosts:
        raise problems[0] if problems else BadInput("no address; give one such as https://example.org/page")
    return WebAddresses(hosts, len(problems))


def new_hosts(desk: Desk, addresses: WebAddresses) -> list[str]:
    """Return the hosts of these addresses that the inbox may not contact yet, in their order.

    Raises Refused if another source has the name of the inbox.
    """
    entry = desk.entries().get(INBOX)
    if entry and str(desk.home.inbox) not in getattr(entry.settings, "addresses", ()):
        raise Refused(f"{INBOX}: another source has this name; remove that source, or add addresses to it")
    allowed = frozenset(getattr(entry.settings, "hosts", ())) if entry else frozenset()
    return [host for host in dict.fromkeys(addresses.hosts.values()) if host not in allowed]


def enqueue(
    desk: Desk,
    addresses: Sequence[str] | WebAddresses,
    actor: str,
    reason: str = "",
    *,
    hosts: Collection[str] = (),
    consented: bool = False,
) -> Enqueued:
    """Add addresses to the list of the inbox, and sync it. The first call creates the source.

    Args:
        hosts: Hosts that may be contacted from now on. Addresses of other new hosts are listed and not read.
        consented: All hosts of the addresses may be contacted.

    Raises BadInput if no address is valid, NoConsent if new hosts need consent and none is given, or as `sources.add`.
    """
    web_addresses = addresses if isinstance(addresses, WebAddresses) else listed(desk, addresses)
    unknown_hosts = new_hosts(desk, web_addresses)
    allowed = [*dict.fromkeys([*hosts, *(unknown_hosts if consented else ())])]
    if unknown_hosts and not allowed:
        raise NoConsent(f"{INBOX}: no consent to read {consents.named(unknown_hosts)}; pass --consent to give it")
    if INBOX not in desk.entries():
        _append(desk.home, ())
        sources.add(
            desk, NewSource("web", str(desk.home.inbox), INBOX, {"hosts": allowed}), actor, reason, consented=True
        )
    elif allowed:
        sources.allow_hosts(desk, INBOX, allowed, actor, reason)
    if added := _append(desk.home, web_addresses.hosts):
        with desk.writing() as ledger:
            ledger.sources.note(INBOX, "changed", actor, reason, fact=count(added, "address", "addresses"))
    unread_hosts = set(new_hosts(desk, web_addresses))
    waiting = sum(host in unread_hosts for host in web_addresses.hosts.values())
    run = None
    with suppress(NotFound, Refused, TryAgain):
        run = syncs.start(desk, INBOX, actor, reason)
    return Enqueued(added, len(web_addresses.hosts) - added, web_addresses.refused, waiting, run)


def keep_file(desk: Desk, name: str, data: bytes, actor: str, reason: str = "") -> str | None:
    """Copy a file into the source for files, and sync it. The first call creates the source. May be repeated.

    Return the run, or None if none could be started. Raises NotFound if a source of another kind has the name, and as
    `push_place.store`.
    """
    if FILES not in desk.entries():
        sources.add(desk, NewSource("pushed", FILES, FILES), actor, reason)
    key = pushed_files.key_of(name.encode() + b"\0" + data, Path(name).suffix)
    raw = RawContent(data, name, metadata={"pushed_by": actor})
    with desk.writing() as ledger:
        if push_place.store(push_place.place(desk, ledger, FILES), key, raw):
            ledger.sources.note(FILES, "changed", actor, reason, fact="1 file")
    with suppress(NotFound, Refused, TryAgain):
        return syncs.start(desk, FILES, actor, reason)
    return None


def _append(home: Home, addresses: Collection[str]) -> int:
    """Add the addresses that the list does not have, and create the list; return their number."""
    with atomic_files.explained(), atomic_files.alone(home.make().path):
        before = home.inbox.read_text(encoding="utf-8").splitlines() if home.inbox.exists() else None
        present = set(before or ())
        fresh = [address for address in addresses if address not in present]
        if fresh or before is None:
            data = "".join(f"{line}\n" for line in [*(before or ()), *fresh]).encode()
            if len(present) + len(fresh) > MOST or len(data) > _MOST_BYTES:
                raise BadInput(
                    f"{INBOX}: holds at most {MOST:,} addresses and 20 MB; add this file as a source of its own"
                )
            atomic_files.write(home.inbox, data)
    return len(fresh)
