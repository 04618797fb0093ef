"""Make a backup, and restore one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from catchment.audit import chain
from catchment.audit.signed_log import Restoration, TreeHead, about
from catchment.audit.signing import log_and_key
from catchment.errors import BadInput, CatchmentError, LedgerError, NotFound, Refused
from catchment.ledger import Ledger, SavedFiles, sqlite_file
from catchment.runtime import process
from catchment.runtime.home import Home, expanded
from catchment.runtime.membership import Membership
from catchment.runtime.reports.backup_status import BackupStatus
from deployments.actions.desk import Desk
from deployments.server.running import kept_down


@dataclass(frozen=True, slots=True)
class MadeBackup:
    """A complete backup. `broken`: the invariants that the copied ledger violates."""

    file: Path
    size: int
    broken: list[str]


def make(desk: Desk, actor: str, reason: str = "", *, target: Path | None = None) -> MadeBackup:
    """Copy the library and the settings into one file, which appears when it is complete and verified.

    Takes minutes with a large library, and blocks no sync. Every process can read the progress and the result in
    `BackupStatus`. `target`: a file, or a folder; the default is `backups` in the home.

    Raises NotFound without a ledger, Refused if another backup is being made, BadInput if the target exists, LedgerError and
    HomeUnavailable.
    """
    home = desk.home
    require_none_running(home)
    status = BackupStatus(process.identity(), datetime.now(UTC))
    status.write(home)
    try:
        with desk.reading() as ledger:
            file = _backup_file(target, home, status.began)
            files = {user_file.name: user_file.read_bytes() for user_file in home.user_files if user_file.is_file()}
            broken = ledger.back_up(
                file, files, lambda rows: {home.checkpoints.name: about(log_and_key(home)[0], rows)}, [home.pushed]
            )
    except BaseException as error:
        problem = str(error) if isinstance(error, CatchmentError) else type(error).__name__
        replace(status, ended=datetime.now(UTC), problem=problem).write(home)
        raise
    problem = f"invariant violated: {broken[0]}" if broken else ""
    replace(status, ended=datetime.now(UTC), problem=problem, is_complete=True).write(home)
    # The backup may be on another disk than a ledger that cannot be written.
    with suppress(CatchmentError), desk.writing() as ledger:
        ledger.history.note("backed up", actor, reason)
    return MadeBackup(file, file.stat().st_size, broken)


@dataclass(frozen=True, slots=True)
class RestoredBackup:
    """A restored backup. `model`: the model of search that the backup chose. `broken`: the invariants that it violates.

    `aside`: the folder with the replaced files, or the schema with the replaced tables. `signed`: the restore as signed.
    """

    aside: Path | None
    model: str
    broken: list[str]
    signed: Restoration


def restore(desk: Desk, file: Path, actor: str, reason: str = "") -> RestoredBackup:
    """Replace the library by a backup, and sign it. Also works if the present ledger is damaged or missing.

    A killed restore had no effect, or the next command that changes something finishes it. Raises Refused while Catchment
    runs or hosts share the library, and the exceptions of `Ledger.restore`.
    """
    home = desk.home
    if Membership.of(home):
        raise Refused("restore: hosts share the library; run `catchment leave` on each, and restore on the last one")
    place = sqlite_file(home.make().database_url)
    signed: list[tuple[Restoration, TreeHead]] = []
    replaced = 0

    def sign(copy: Ledger, saved: SavedFiles) -> None:
        checkpoints = saved.files.get(home.checkpoints.name, b"")
        signed.append(chain.sign_restore(home, copy, checkpoints, saved.made, replaced, actor, reason))

    with kept_down(home, "restore"):
        # A ledger that cannot be read is replaced in any case.
        with suppress(NotFound, LedgerError), desk.reading() as present:
            if place is None or place.parent != home.path:
                present.require_owner(alone=True)
            replaced = present.history.latest()
        # They are keyed by numbers of jobs and items, which the restored ledger assigns again.
        outdated = [home.cache, home.raw]
        result = Ledger.restore(home.database_url, expanded(file).absolute(), outdated, home.user_files, sign)
        ((restoration, head),) = signed
        chain.confirm_restore(home, head)
    return RestoredBackup(result.aside, result.model, result.broken, restoration)


def require_none_running(home: Home) -> None:
    """Raise Refused if a backup is being made."""
    if (present := BackupStatus.read(home)) and present.is_running:
        raise Refused("backup: another one is being made; wait until it is complete")


def _backup_file(target: Path | None, home: Home, now: datetime) -> Path:
    if target is None:
        target = home.backups
        if not target.exists():
            target.mkdir(mode=0o700, exist_ok=True)
    file = expanded(target).absolute()
    if not file.is_dir():
        if not file.parent.is_dir():
            raise BadInput(f"{file.parent.name}: no such folder; create it, or name a file in an existing one")
        return file
    backup = file / f"catchment-{now:%Y%m%dT%H%M%S}.db"
    return backup.with_stem(f"{backup.stem}-{now:%f}") if backup.exists() else backup
