"""Give and revoke the consent to read a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from catchment.contracts import Connector, Guarded
from catchment.errors import BadInput, NoConsent, NotFound
from catchment.ledger import WHOLE, Ledger
from catchment.sync import revoke as purge
from catchment.sync.preflight import consented, scopes_of
from catchment.sync.revoke import Extent, PurgeProof
from catchment.views.sources import ScopeView, scopes
from connectors import connector_class
from deployments.actions.desk import Desk, known
from deployments.sources.entries import Timing
from deployments.sources.sources_file import SourceEntry

MOST_NAMED = 10
"""Number of scopes that a message or a question names."""


@dataclass(frozen=True, slots=True)
class ConsentView:
    """The scopes of a source. `documents`: that a withdrawal deletes, of the chosen scope or of all.

    `unread_hosts`: of a web source, the hosts that it may not contact, with the number of its addresses there.
    """

    source: str
    scopes: list[ScopeView]
    scope: str | None
    documents: int
    unread_hosts: Mapping[str, int]


def requested(desk: Desk, entry: SourceEntry) -> Mapping[str, str]:
    """Return the scopes that a source is configured to read, with a description of each."""
    return scopes_of(desk.connector(entry)) or {WHOLE: "the configured files on this machine"}


def unread_hosts(desk: Desk, ledger: Ledger, entry: SourceEntry) -> Mapping[str, int]:
    """Return the hosts that a web source may not contact, with the number of its items there; most first."""
    connector = desk.connector(entry)
    if not isinstance(connector, Guarded) or not hasattr(entry.settings, "hosts"):
        return {}
    try:
        excluded = ledger.intake.excluded(ledger.sources.get(entry.name).id)
    except NotFound:
        return {}
    allowed = connector.scopes()
    return dict(Counter(scope for scope in map(connector.scope_of, excluded) if scope not in allowed).most_common())


def consent(desk: Desk, ledger: Ledger, name: str, scope: str | None = None) -> ConsentView:
    """Return the scopes of a source, and the consent to them. `scope`: the one to withdraw. Raises NotFound."""
    consent_rows = ledger.consents.all(name, every=True)
    # Another host of a shared library may have its settings.
    entry = desk.entries().get(name) if consent_rows else desk.entry(name)
    rows = scopes(ledger, name, requested(desk, entry) if entry else {})
    documents = ledger.library.sizes().get(name, 0)
    if scope:
        covered = extent(desk, ledger, name, scope)
        documents = len(ledger.purging.holdings(ledger.sources.get(name).id, covered.covers).documents)
    return ConsentView(name, rows, scope, documents, unread_hosts(desk, ledger, entry) if entry else {})


def named(names: Collection[str]) -> str:
    """Return the names of scopes in one line: of more than ten, the first ten and the number of the others."""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(list(names)[:MOST_NAMED])}{more}"


def require_agreed(name: str, connector: Connector, *, agreed: bool) -> Mapping[str, str]:
    """Return the scopes of a new source. Raises NoConsent if there are some, and the operator has not agreed."""
    if (needed := scopes_of(connector)) and not agreed:
        raise NoConsent(f"{name}: no consent to read {named(needed)}; pass --consent to give it")
    return needed


def require(desk: Desk, entry: SourceEntry) -> None:
    """Raise NoConsent unless the source may be read now. The missing consent is recorded as requested."""
    with suppress(NotFound), desk.reading() as ledger:
        # By its settings: since the last sync, they may have come to request more.
        if requested(desk, entry).keys() <= ledger.consents.valid(ledger.sources.get(entry.name).id):
            return
    with desk.writing() as ledger:
        source = ledger.sources.put(entry.name, entry.kind, entry.settings.priority)
        consented(ledger, source, desk.connector(entry))


def give(desk: Desk, name: str, actor: str, reason: str = "", *, until: datetime | None = None) -> frozenset[str]:
    """Give consent to all that a source is set to read, until a time or until it is revoked. Return the scopes. Idempotent.

    Raises NotFound, BadInput if the end is past, or Refused while revoked data is being deleted.
    """
    entry = desk.entry(name)
    scopes = frozenset(requested(desk, entry))
    with desk.writing() as ledger:
        require_later(ledger, until)
        source = ledger.sources.put(entry.name, entry.kind, entry.settings.priority)
        ledger.consents.give(source.id, scopes, actor, until, reason)
    if connector_class(entry.kind).manifest.runs_programs:
        # A deployment that was changed in Prefect would ask for another consent.
        with desk.changing(entry):
            pass
    return scopes


def require_later(ledger: Ledger, until: datetime | None) -> None:
    """Raise BadInput if the end of a consent is past."""
    if until is not None and until <= ledger.now():
        raise BadInput("end of the consent: in the past; choose a later one")


def revoke(
    desk: Desk,
    name: str,
    actor: str,
    reason: str = "",
    *,
    scope: str | None = None,
) -> PurgeProof:
    """Withdraw consent to a source or one scope of it, delete the data, and verify the deletion.

    A web source no longer has the host and its addresses as settings then, and continues with the others. If it has no other
    address, the settings stay, and the source waits for a consent.

    May be repeated to finish an interrupted deletion. Raises NotFound for an unknown source or scope, TryAgain if a running
    sync does not end.
    """
    with desk.writing() as ledger:
        purge_scope = extent(desk, ledger, name, scope)
        proof = purge.revoke(desk.home, ledger, ledger.sources.get(name), purge_scope, actor, reason)
    entry = desk.entries().get(name)
    if entry and scope and (settings := _without(desk, entry, scope)):
        with desk.changing(desk.revised(entry, settings, Timing())):
            pass
    return proof


def _without(desk: Desk, entry: SourceEntry, host: str) -> dict[str, list[str]]:
    """Return the settings of a web source that name a host, without it; empty if none does, or no address would be left."""
    present: dict[str, tuple[str, ...]] = {
        key: getattr(entry.settings, key, ()) for key in ("addresses", "hosts") if hasattr(entry.settings, "hosts")
    }
    left = {key: [name for name in names if host not in (name, _host(desk, name))] for key, names in present.items()}
    return (
        {key: names for key, names in left.items() if len(names) < len(present[key])} if left.get("addresses") else {}
    )


def _host(desk: Desk, name: str) -> str | None:
    """Return the host of a web address; None for a file and a host."""
    return desk.web_address(name)[1] if "://" in name else None


def extent(desk: Desk, ledger: Ledger, name: str, scope: str | None) -> Extent:
    """Return the data that a revocation deletes: the whole source or one scope. Raises NotFound if either is unknown."""
    source = known(desk, ledger, name)
    known_scopes = {consent.scope for consent in ledger.consents.all(source.name, every=True)}
    if scope is None:
        return Extent(frozenset(known_scopes or {WHOLE}), lambda _locator: True, whole=True)
    connector = desk.connector(desk.entry(name))
    choices: Collection[str] = {*known_scopes, *(connector.scopes() if isinstance(connector, Guarded) else ())}
    if scope not in choices:
        raise NotFound(f"{name}: no scope {scope!r}; choose {', '.join(sorted(choices)) or WHOLE}")
    if not isinstance(connector, Guarded) or not connector.scopes():
        return Extent(frozenset({scope}), lambda _locator: True, whole=True)
    scope_of = connector.scope_of
    return Extent(frozenset({scope}), lambda locator: scope_of(locator) == scope, whole=False)
