"""Add, change, pause, resume and remove a source; decide on its held deletions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from catchment.content import copies_in_memory
from catchment.errors import BadInput, CatchmentError, HomeUnavailable, NotFound, Refused, TryAgain
from catchment.ledger import FAILED_OUTCOMES, WHOLE, ConsentState, Ledger, Source
from catchment.model import leaves
from catchment.runtime import atomic_files
from catchment.settings import SourceSettings
from catchment.sync.kept_raw import forget_raw
from catchment.sync.preflight import probe
from catchment.sync.revoke import forget_files, purge_cache
from catchment.telemetry.incidents import UNREAD
from connectors import connector_class
from connectors.pushed import PushedSettings
from deployments.actions import consents, pushed, syncs
from deployments.actions.desk import Desk, known
from deployments.sources.entries import Timing
from deployments.sources.sources_file import SourceEntry

_SECRET_SUFFIX = ".secret"
"""End of the names of files with typed secrets."""
ADDRESSES = ("new", "limits")
"""Names that the addresses of pages have."""


@dataclass(frozen=True, slots=True)
class NewSource:
    """A source as an operator typed it.

    Attributes:
        location: Path of a folder, a vault or a clone; `user@host[:port]`; `owner/repo`.
        settings: Of its connector. Secrets are references.
        secret: A password or token itself. It is stored in a private file of the home, and the settings refer to that.
    """

    kind: str
    location: str
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    secret: str = field(default="", repr=False)

    def written(self, desk: Desk, **references: str) -> SourceEntry:
        """Return the source as the sources file would have it. `references`: to secrets. Raises BadInput."""
        if self.name in ADDRESSES:
            raise BadInput(f"{self.name!r}: an address of the page; choose another name")
        return desk.draft(self.kind, self.location, self.name, {**self.settings, **references}, self.timing)


@dataclass(frozen=True, slots=True)
class ChangedSetting:
    """A setting by its dotted key, "schedule" or "watch" (watched, quiet seconds), with its two values.

    `is_identity`: it decides which place the source reads.
    """

    key: str
    before: Any
    after: Any
    is_identity: bool = False


def add(
    desk: Desk,
    new: NewSource,
    actor: str,
    reason: str = "",
    *,
    consented: bool = False,
    until: datetime | None = None,
) -> str:
    """Add a source after checking that it can be read. Return the description of its content.

    A failure leaves no trace. If the process is killed before it recorded the consent, repeating the action completes it, but
    not with a typed secret.

    Args:
        consented: The operator agreed to all that the source is set to read. Not needed for files on this machine.
        until: End of the consent.

    Raises NoConsent, BadInput if the name is taken, SourceError, Refused during a removal of the name, or TryAgain.
    """
    with _stored_secret(desk, new.kind, new.settings, new.secret) as references:
        entry = new.written(desk, **references)
        connector = desk.connector(entry)
        if isinstance(entry.settings, PushedSettings):
            entry.settings.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        scopes = consents.require_agreed(entry.name, connector, agreed=consented)
        description = probe(connector)
        with desk.writing() as ledger:
            consents.require_later(ledger, until)
            _refuse_during_removal(ledger, entry.name)
            is_written = desk.entries().get(entry.name) == entry and not ledger.consents.agreed(entry.name)
            with desk.adding(entry, is_written=is_written):
                source = ledger.sources.put(entry.name, entry.kind, entry.settings.priority, actor, reason)
                ledger.consents.give(source.id, frozenset(scopes or {WHOLE}), actor, until, reason)
    return description


def differences(old: SourceEntry, new: SourceEntry) -> list[ChangedSetting]:
    """Return the differences between two versions of a source: settings, "schedule" and "watch"."""
    old_values, new_values = leaves(old.settings.model_dump(mode="json")), leaves(new.settings.model_dump(mode="json"))
    identity = old.settings.differing(new.settings)
    changes = [
        ChangedSetting(key, old_values.get(key), new_values.get(key), key.partition(".")[0] in identity)
        for key in {**old_values, **new_values}
        if old_values.get(key) != new_values.get(key)
    ]
    if old.schedules != new.schedules:
        changes.append(ChangedSetting("schedule", old.schedules, new.schedules))
    if (old.watch, old.quiet) != (new.watch, new.quiet):
        changes.append(ChangedSetting("watch", (old.watch, old.quiet), (new.watch, new.quiet)))
    return changes


def change(desk: Desk, entry: SourceEntry, actor: str, reason: str = "", *, secret: str = "") -> list[ChangedSetting]:
    """Give a source the settings, schedules and watching of `entry`. Return the changes. A failure leaves no trace.

    `secret`: A new password or token, stored as for a new source if the source can be read with it; it replaces the secret
    that was typed before. A source that could not be read is synced, and resumed if it is held.

    Raises NotFound, Refused if another place would be read or the source is being removed, ConfigError, BadInput or TryAgain;
    with a secret also NoConsent and SourceError.
    """
    name, old_secrets = entry.name, _own_secrets(desk, entry.name) if secret else []
    with _stored_secret(desk, entry.kind, {}, secret) as references:
        entry = desk.revised(entry, references, Timing()) if references else entry
        changes = differences(desk.entry(name), entry)
        require_same_place(name, changes)
        if references:
            _probe(desk, entry)
        if changes:
            with desk.writing() as ledger:
                _refuse_during_removal(ledger, name)
                with desk.changing(entry):
                    keys = ", ".join(setting.key for setting in changes)
                    settings = entry.settings
                    source = ledger.sources.put(name, entry.kind, settings.priority, keep_days=settings.keep_days)
                    if any(setting.key == "keep_raw" and not setting.after for setting in changes):
                        forget_raw(desk.home, ledger, source.id)
                    ledger.sources.note(name, "changed", actor, reason, fact=keys)
    for file in old_secrets:
        file.unlink(missing_ok=True)
    if secret:
        _read_again(desk, name, actor, reason)
    return changes


def test(desk: Desk, name: str, actor: str, reason: str = "") -> str:
    """Check that a source can be read. Return the description of its content.

    A source that could not be read before is synced, and resumed if it is held.

    Raises NotFound, NoConsent, SourceError, or Refused if only another host can read it.
    """
    description = _probe(desk, desk.entry(name))
    _read_again(desk, name, actor, reason)
    return description


def allow_hosts(
    desk: Desk,
    name: str,
    hosts: Collection[str],
    actor: str,
    reason: str = "",
    *,
    until: datetime | None = None,
) -> frozenset[str]:
    """Let a source contact more hosts, with consent to them. Return the new scopes. Idempotent.

    Raises NotFound, BadInput if the kind of the source has no hosts or the end is past, Refused or TryAgain.
    """
    old_entry = desk.entry(name)
    entry = desk.revised(old_entry, {"hosts": [*getattr(old_entry.settings, "hosts", ()), *hosts]}, Timing())
    old_scopes = consents.requested(desk, old_entry)
    with desk.writing() as ledger:
        consents.require_later(ledger, until)
        change(desk, entry, actor, reason)
        # A scope in the state `ASKED` is left over from a killed call.
        known_scopes = {
            consent.scope for consent in ledger.consents.all(name, every=True) if consent.state != ConsentState.ASKED
        }
        new = frozenset(
            scope for scope in consents.requested(desk, entry) if scope not in old_scopes or scope not in known_scopes
        )
        if new:
            ledger.consents.give(known(desk, ledger, name).id, new, actor, until, reason)
    return new


def require_same_place(name: str, changes: list[ChangedSetting]) -> None:
    """Raise Refused if a difference would make it another source."""
    if keys := [setting.key for setting in changes if setting.is_identity]:
        raise Refused(
            f"{name}: cannot change {', '.join(keys)}, which identifies the source; add another source, or remove "
            f"this one first: catchment sources remove {name}"
        )


def require_no_program(kind: str, settings: Collection[str] | None = None) -> None:
    """Raise Refused for a kind that runs programs of the user's choice: a page in a browser must not choose them.

    `settings`: only if one of them is not common to all kinds.
    """
    is_common = settings is not None and SourceSettings.model_fields.keys() >= set(settings)
    if connector_class(kind).manifest.runs_programs and not is_common:
        raise Refused(
            f"{kind}: runs programs, so that only a command adds, changes or permits it; see docs/programs.md"
        )


def move(desk: Desk, name: str, to: str, actor: str, reason: str = "") -> str:
    """Let a source run on this host, or on any. This host defines it from now on, also if the former one does not answer.

    Return the description of its content. Raises NotFound, NoConsent, BadInput, Refused, SourceError or TryAgain.
    """
    with desk.writing() as ledger:
        _refuse_during_removal(ledger, name)
        with desk.moving(name, to) as entry:
            description = _probe(desk, entry)
        ledger.sources.note(name, "moved", actor, reason, fact=f"to {to}")
    with suppress(NotFound, Refused, TryAgain):
        syncs.start(desk, name, actor, reason)
    return description


def pause(desk: Desk, name: str, actor: str, reason: str = "") -> None:
    """Start no more syncs of a source until it is resumed; a running one ends after its batch. Raises NotFound or TryAgain."""
    with desk.writing() as ledger, _switch_shown(desk, known(desk, ledger, name), on=False):
        ledger.sources.pause(name, actor, reason)


def resume(desk: Desk, name: str, actor: str, reason: str = "") -> str | None:
    """Resume a source that is paused or held, and sync it.

    Return the ID of the run, or None if no sync could start, for example because Catchment is not running. Raises NotFound
    or TryAgain.
    """
    with desk.writing() as ledger, _switch_shown(desk, known(desk, ledger, name), on=True):
        ledger.sources.resume(name, actor, reason)
    with suppress(NotFound, Refused, TryAgain):
        return syncs.start(desk, name, actor, reason)
    return None


def _probe(desk: Desk, entry: SourceEntry) -> str:
    consents.require(desk, entry)
    return probe(desk.connector_here(entry))


def _read_again(desk: Desk, name: str, actor: str, reason: str) -> None:
    """Resume and sync a source whose last sync could not read it. A pause stays, and so does a hold after a crash."""
    with suppress(NotFound), desk.reading() as ledger:
        source = ledger.sources.get(name)
        last = next((sync for sync in ledger.syncs.recent(source.id) if sync.outcome not in (None, "cancelled")), None)
        if last and last.outcome in FAILED_OUTCOMES and last.cause in UNREAD and source.state != "paused":
            resume(desk, name, actor, reason)


def apply_deletions(desk: Desk, name: str, actor: str, reason: str = "", *, expected: int | None = None) -> int:
    """Confirm the held deletions of a source, and remove the documents. Return the number of items.

    Items that a later sync finds again are restored. `expected`: the number that the operator saw; if it has changed, the
    action is refused.

    Raises NotFound, or Refused.
    """
    with desk.writing() as ledger:
        return ledger.intake.apply_hold(_with_deletions(ledger, name, expected), actor, reason)


def drop_deletions(desk: Desk, name: str, actor: str, reason: str = "") -> int:
    """Discard the held deletions of a source; the next sync compares again. Return the number of items. Raises NotFound."""
    with desk.writing() as ledger:
        return ledger.intake.drop_hold(_with_deletions(ledger, name, None), actor, reason)


def remove(desk: Desk, name: str, actor: str, reason: str = "") -> None:
    """Remove a source from the file, the server and the library. Can be repeated after an interruption. Raises NotFound."""
    require(desk, name)
    desk.require_defined_here(name)
    with desk.writing() as ledger:
        # Before the file forgets the source, so that `status` and `check` name an interrupted removal.
        with suppress(NotFound):
            ledger.sources.begin_removal(name, actor)
        for file in _own_secrets(desk, name):
            file.unlink(missing_ok=True)
        desk.remove(name)
        pushed.forget_tokens(desk.home, name)
        # Before the ledger forgets the source, so that an interrupted removal can be repeated.
        forget_files(desk.home, name)
        purge_cache(desk.home)
        # A source that was written by hand and never synced is not in the ledger.
        with suppress(NotFound):
            ledger.purging.ask_hosts(ledger.sources.get(name).id)
            ledger.sources.remove(name, actor, reason)
        # A running sync may have written more files.
        forget_files(desk.home, name)
        if name == desk.home.inbox.stem:
            desk.home.inbox.unlink(missing_ok=True)
        # The daily clean-up does it otherwise.
        with suppress(HomeUnavailable):
            purge_cache(desk.home)
            forget_raw(desk.home, ledger)
    # Last, because it ends the web process, in which this may run.
    copies_in_memory.forget(desk.home)


def require(desk: Desk, name: str) -> None:
    """Raise NotFound unless the sources file or the library has the source."""
    if name in desk.entries():
        return
    with suppress(NotFound), desk.reading() as ledger:
        ledger.sources.get(name)
        return
    desk.entry(name)


@contextmanager
def _switch_shown(desk: Desk, source: Source, *, on: bool) -> Iterator[None]:
    """Show a pause or its end in the Prefect UI; restore it if the block fails. The ledger decides: every sync checks it."""
    desk.switch(source.kind, source.name, on=on)
    try:
        yield
    except BaseException:
        with suppress(CatchmentError):
            desk.switch(source.kind, source.name, on=source.state == "active")
        raise


def _with_deletions(ledger: Ledger, name: str, expected: int | None) -> int:
    source_id = ledger.sources.get(name).id
    number = sum(hold.count for hold in ledger.intake.holds(source_id))
    if expected is not None and number not in (0, expected):
        problem = f"{number} deletions are held now instead of {expected}"
        raise Refused(f"{name}: {problem}; nothing was changed, look again and repeat")
    return source_id


@contextmanager
def _stored_secret(desk: Desk, kind: str, settings: Mapping[str, Any], secret: str) -> Iterator[Mapping[str, str]]:
    """Store a typed secret in a file; yield the setting that refers to it. A failure of the block removes the file."""
    if not secret:
        yield {}
        return
    setting = desk.secret_setting(kind)
    if setting is None:
        raise BadInput(f"secret: {kind} needs none; leave it empty")
    if setting in settings:
        raise BadInput(f"secret: {setting} is among the settings, too; give one of them")
    folder = desk.home.make().secrets
    file = folder / f"{token_hex(8)}{_SECRET_SUFFIX}"
    try:
        with atomic_files.explained():
            folder.mkdir(mode=0o700, exist_ok=True)
            atomic_files.write(file, secret.encode())
        yield {setting: f"file:{file}"}
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _own_secrets(desk: Desk, name: str) -> list[Path]:
    """Return the files with typed secrets to which this source alone refers."""
    places = {
        entry.name: {Path(str(value).removeprefix("file:")) for value in dict(entry.settings).values()}
        for entry in desk.entries().values()
    }
    foreign_files = set().union(*(files for source_name, files in places.items() if source_name != name))
    own_files = places.get(name, set()) - foreign_files
    return [place for place in own_files if place.parent == desk.home.secrets and place.suffix == _SECRET_SUFFIX]


def _refuse_during_removal(ledger: Ledger, name: str) -> None:
    if ledger.sources.is_being_removed(name):
        remedy = f"wait, or finish an interrupted removal with `catchment sources remove {name}`"
        raise Refused(f"{name}: being removed; {remedy}")
