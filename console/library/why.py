"""`catchment why`: explain how an item entered the library, or why it is missing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import BadInput, NoConsent, NotFound, PageSilent
from catchment.runtime import web_process
from catchment.runtime.home import expanded
from console import arguments, completion, render, session
from console.trouble import jobs

if TYPE_CHECKING:
    from catchment.records.standing import Consent
    from catchment.views.items import ItemWhy, WhyView
    from deployments.sources.sources_file import SourceEntry

_ITEMS_SHOWN = 5


def why(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A file, an item's path or name, or a document's number or title.",
            autocompletion=completion.names("document"),
        ),
    ],
    source: session.OnlySource = None,
    as_json: arguments.Json = False,
) -> None:
    """Explain why an item is in the library, or why it is not.

    Shows when and by which sync it was listed, its state with the reason, its document and its next attempt.

    Example: catchment why ~/Vault/Bees.md
    """
    view = _known(path, source)
    # The web process returns no more items than these.
    if view is None or not 0 < len(view.items) < _ITEMS_SHOWN:
        view = _looked_up(path, source)
    if as_json:
        render.show_json(view)
        return
    for item in view.items[:_ITEMS_SHOWN]:
        _print(item)
        jobs.show_events(item.history)
        render.say()
    if len(view.items) > _ITEMS_SHOWN:
        render.note(f"{path}: {len(view.items) - _ITEMS_SHOWN} more items match; use a longer path")
    for reason in view.not_here:
        render.say(render.clean(reason))


def _known(path: str, source: str | None) -> WhyView | None:
    """Return the items of this name that the running system knows, at most `_ITEMS_SHOWN`; None if it does not answer."""
    from catchment.views.items import WhyView

    file = expanded(Path(path))
    # The web process has another working directory.
    item = str(file.absolute()) if path.startswith((".", "~")) or os.path.lexists(file) else path
    try:
        view = web_process.fetch(session.home(), "/why", WhyView, item=item, source=source or "")
    except PageSilent:
        return None
    return replace(view, asked=path)


def _looked_up(path: str, source: str | None) -> WhyView:
    """Return the items of this name or, if there is none, the reasons. Reads the ledger, the settings and the sources."""
    from catchment.views import items as views
    from catchment.views import resolver

    entries = session.desk().entries()
    if source and source not in entries:
        session.desk().entry(source)
    settings = {name: entry.settings for name, entry in entries.items() if source in (None, name)}
    items: tuple[views.ItemWhy, ...] = ()
    # Without a ledger no item is known, and the reasons below cover that.
    with suppress(NotFound), session.reading() as ledger:
        matches = resolver.find(ledger, path, lambda: settings, source)
        items = tuple(views.why(ledger, session.home(), row, render.ago) for row in matches.listed)
    reasons = [] if items else _why_not(path, entries, resolver.places(path, settings))
    return views.WhyView(path, items, tuple(reasons))


def _consent(consents: Sequence[Consent]) -> str | None:
    """Return the consent to a source in words: of several scopes, one without consent first."""
    first = next((consent for consent in consents if consent.state != "given"), consents[0] if consents else None)
    if first is None or first.state != "given":
        return None if first is None else f"{first.state}: {first.scope}"
    ends = min((consent.expires for consent in consents if consent.expires), default=None)
    return f"given by {first.by}" + (f" until {render.local(ends)}" if ends else "")


def _print(item: ItemWhy) -> None:
    render.show_fields(
        {
            **render.facts(item, "item", "source"),
            "status": item.because,
            "consent": _consent(item.consents),
            **render.facts(item, "first_seen", "changed"),
            "missing since": item.gone,
            **render.facts(item, "attempts", "next_attempt"),
            "listed by sync": item.sync,
            "run": session.run_address(item.run),
            "code version": item.code_version,
            "content": item.content_hash,
        }
    )
    render.say()


def _why_not(path: str, entries: Mapping[str, SourceEntry], inside: Mapping[str, str]) -> list[str]:
    """Return the reasons why a path is not in the library. Raises NotFound if it is unknown and does not exist."""
    from catchment.views import resolver

    file = resolver.spelled(expanded(Path(path)))
    exists = os.path.lexists(file)
    if not exists and (hindrance := obstacle(file)):
        return [f"{path}: cannot look: {hindrance}"]
    if not inside:
        if not exists:
            closed = _lacking_consent(entries)
            if not (reasons := _of_feed(path, entries)):
                reasons = [_unknown(path, entries)]
                if not closed:
                    raise NotFound(*reasons)
            return [*reasons, *(f"a source that is not read may have it: {problem}" for problem in closed)]
        names = ", ".join(entries) or "none configured"
        return [f"{path}: outside all sources ({names}); add its folder with `catchment add`"]
    reasons = []
    for name, locator in inside.items():
        reasons += _why_not_in(name, locator, entries[name], exists)
    return reasons


def _unknown(path: str, entries: Mapping[str, SourceEntry]) -> str:
    """Return the message that a path is unknown, with similar names; for a path on the disk, that no source contains it."""
    if Path(path).is_absolute() or path.startswith((".", "~")):
        return f"{path!r}: no such item or file, and outside all sources ({', '.join(entries) or 'none configured'})"
    with suppress(NotFound), session.reading() as ledger:
        if similar := ledger.intake.similar(path):
            return f"{path!r}: no such item or file; did you mean {' or '.join(similar)}?"
    return f"{path!r}: no such item or file; see `catchment jobs list`"


def _of_feed(address: str, entries: Mapping[str, SourceEntry]) -> list[str]:
    """Return the facts of web sources about the address of a feed or list, which is not an item while it can be read."""
    from catchment.model import HOST, AwayHost
    from connectors.web.address import host_of, normalized
    from connectors.web.marks import READ
    from connectors.web.settings import WebSettings

    try:
        place = normalized(address)
    except BadInput:
        return []
    reasons = []
    for name, settings in ((name, entry.settings) for name, entry in entries.items()):
        if not isinstance(settings, WebSettings) or not settings.allowed.host_for(place):
            continue
        marks: Mapping[str, str] = {}
        with suppress(NotFound), session.reading() as ledger:
            marks = ledger.intake.known(ledger.sources.get(name).id).marks()
        kind = marks.get(READ + place, "").partition(" ")[0].replace("_", " ")
        failing = marks.get(HOST + host_of(place))
        if not (kind or failing or place in settings.addresses):
            continue
        reason = f"{kind}, read; what it names is in the library" if kind else "not read yet"
        again = f"; its host does not answer since {render.local(AwayHost.of(place, failing).since)}" if failing else ""
        reasons.append(f"{name}: {reason}{again}; see `catchment sources show {name}`")
    return reasons


def _lacking_consent(entries: Mapping[str, SourceEntry]) -> list[str]:
    """Return a message for each source without consent: its items are unknown."""
    from deployments.actions import consents

    messages = []
    for entry in entries.values():
        try:
            consents.require(session.desk(), entry)
        except NoConsent as error:
            messages.append(str(error))
    return messages


def _why_not_in(name: str, locator: str, entry: SourceEntry, exists: bool) -> list[str]:
    """Return the reasons from the state of the source, its last sync and a new listing."""
    from catchment.views.waits import state_of
    from deployments.server.planned import latest_report

    if reasons := _lacking_consent({name: entry}):
        return reasons
    known = last = None
    with suppress(NotFound), session.reading() as ledger:
        known = ledger.sources.get(name)
        last = ledger.syncs.last(known.id)
    _, wait = state_of(name, known, latest_report(session.home()))
    if wait:
        reasons.append(str(wait))
    if last is None:
        reasons.append(f"{name}: never synced; run `catchment sync {name}`")
    if not exists:
        reasons.append(_absent(entry, locator))
    else:
        reasons.append(_listed(entry, locator))
    return reasons


def obstacle(path: Path) -> str | None:
    """Return why this user cannot see whether a path exists; None if it can be seen."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        folder = next(above for above in path.absolute().parents if os.path.lexists(above))
        return f"{folder}: {os.strerror(error.errno or 0).lower()}; grant access to it, then ask again"
    return None


def _absent(entry: SourceEntry, locator: str) -> str:
    """Return the reason why a file that cannot be found was never listed."""
    from connectors import connector_class

    connector_class(entry.kind)(entry.settings).probe()
    with suppress(NotFound), session.reading() as ledger:
        for folder in _above(locator):
            for item in ledger.intake.find(folder, source=entry.name):
                if item.locator == folder and item.state == "present":
                    return f"{entry.name}: cannot look: {folder} was not listed; see `catchment why {folder}`"
    return f"{entry.name}: the file does not exist and was never listed"


def _listed(entry: SourceEntry, locator: str) -> str:
    """List the source again and return the connector's verdict on an item."""
    from catchment.contracts import NothingKnown
    from catchment.model import Failure, Skip, Upsert
    from catchment.views.items import plain
    from connectors import connector_class
    from connectors.folders.file import to_path

    connector = connector_class(entry.kind)(entry.settings)
    # Only some kinds have rules about names. If their file is unreadable, the listing below reports it.
    with suppress(OSError):
        if (rules := getattr(connector, "why_not", None)) and (reason := rules(to_path(locator))):
            return f"{entry.name}: not read ({reason})"
    for change in connector.changes(NothingKnown()):
        match change:
            case Upsert(item=item) if item.locator == locator:
                return f"{entry.name}: new; add it with `catchment sync {entry.name}`"
            case Skip(item=item, reason=reason) if item.locator == locator:
                return f"{entry.name}: will be skipped ({plain(reason.value)})"
            case Failure(item=item, error=error) if item.locator in (locator, *_above(locator)):
                return f"{entry.name}: cannot be listed ({error})"
    return f"{entry.name}: not listed, because it is not a regular file or lies behind a symbolic link"


def _above(locator: str) -> list[str]:
    """Return the folders above an item, as a failed listing names them."""
    parts = locator.split("/")[:-1]
    return ["/".join(parts[: end + 1]) + "/" for end in range(len(parts))]
