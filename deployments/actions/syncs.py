"""Start, cancel and undo a sync; start one of every source."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from catchment.errors import NotFound, Refused, TryAgain, UserError
from catchment.sync.plan import load_plan, save_plan
from deployments.actions import consents
from deployments.actions.desk import Desk, known
from deployments.sources.sources_file import SourceEntry

if TYPE_CHECKING:
    from catchment.ledger import Undone


def start(desk: Desk, name: str, actor: str, reason: str = "", *, deep: bool = False, plan: bytes | None = None) -> str:
    """Start a sync of a source. Return the ID of its run.

    Args:
        deep: Compare contents instead of sizes and times. A plan decides this itself.
        plan: A plan of this source; only its changes are applied.

    Raises NotFound, Refused if the source is paused, NoConsent, TryAgain if it is held or Catchment is not running, BadInput.
    """
    entry = desk.entry(name)
    require_runnable(desk, entry)
    plan_id = None
    if plan is not None:
        plan_id = save_plan(desk.home, plan)
        deep = load_plan(desk.home, plan_id, name).deep
    run = desk.start(entry.kind, name, deep=deep, plan=plan_id)
    with desk.writing() as ledger:
        known(desk, ledger, name)
        ledger.sources.note(name, "sync requested", actor, reason)
    return run


def start_all(desk: Desk, actor: str, reason: str = "", *, deep: bool = False) -> dict[str, str | UserError]:
    """Start a sync of every source. Return the ID of its run by the source's name, or why it cannot be started.

    Raises NotFound if there are no sources.
    """
    if not (names := list(desk.entries())):
        raise NotFound("no sources yet; see `catchment add --help`")
    runs: dict[str, str | UserError] = {}
    for name in names:
        try:
            runs[name] = start(desk, name, actor, reason, deep=deep)
        except (NotFound, Refused, TryAgain) as error:
            runs[name] = error
    return runs


def cancel(desk: Desk, name: str, actor: str, reason: str = "") -> str:
    """Cancel the running sync of a source, which stops after its current step. Return the ID of its run.

    Raises NotFound if no sync of it is running, or TryAgain if Catchment is not running.
    """
    with desk.writing() as ledger:
        latest = ledger.syncs.last(ledger.sources.get(name).id)
        if latest is None or latest.outcome is not None or latest.run is None:
            raise NotFound(f"{name}: no sync is running; see `catchment status`")
        desk.cancel(latest.run)
        ledger.sources.note(name, "cancel requested", actor, reason)
        return latest.run


def undo(desk: Desk, number: int, actor: str, reason: str = "") -> Undone:
    """Undo the changes of a sync in the library, except where they were overwritten. The source is not changed.

    May be repeated to finish an interrupted undo. Raises NotFound if the sync cannot be undone, TryAgain while a sync of the
    source is running.
    """
    with desk.writing() as ledger:
        return ledger.undo.undo(number, actor, reason, ledger.alive)


def require_runnable(desk: Desk, entry: SourceEntry) -> None:
    """Raise TryAgain if the source is held, Refused if it is paused, NoConsent if it may not be read."""
    source = None
    with suppress(NotFound), desk.reading() as ledger:
        source = ledger.sources.get(entry.name)
    if source is not None and source.wait:
        raise (TryAgain if source.state == "held" else Refused)(str(source.wait))
    consents.require(desk, entry)
