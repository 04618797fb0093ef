"""Plan, start and steer backfills: older windows, and replays by newer code."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from catchment.content.parsing import CODE
from catchment.contracts import Windowed
from catchment.errors import BadInput, NotFound, Refused, TryAgain
from catchment.ledger import Backfill, BackfillSelection, BackfillState, Survey
from catchment.model import ReplayStage
from catchment.sync.kept_raw import raw_store, readable
from catchment.sync.plan import make_plan
from deployments.actions import syncs
from deployments.actions.desk import Desk, known

if TYPE_CHECKING:
    from catchment.ledger import Undone

_MOST_UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class SourceSurvey:
    """The work that a selection means for a source."""

    source: str
    survey: Survey


def window(
    desk: Desk,
    name: str,
    since: datetime | None,
    until: datetime | None,
    stage: ReplayStage | None = None,
    locators: Collection[str] | None = None,
) -> BackfillSelection:
    """Return the selection of a window or of items by their paths.

    Without a `stage`, the backfill fetches missing items, or these items again, if it has `locators` or the connector can list
    a period. Otherwise it normalizes the items again that newer code would normalize differently. Raises BadInput for a path
    that the library does not have, or a window that ends before it begins.
    """
    if since is None and until is None and locators is None:
        raise BadInput("backfill: choose --from, --to or --items, so that it has an extent")
    if since is not None and until is not None and until <= since:
        raise BadInput("--to: not after --from; choose a later day")
    syncs.require_runnable(desk, desk.entry(name))
    items = None
    with desk.writing() as ledger:
        source = known(desk, ledger, name)
        if locators is not None:
            items_by_locator = ledger.backfills.items_at(source.id, locators)
            if unknown := [locator for locator in locators if locator not in items_by_locator]:
                first = ", ".join(unknown[:_MOST_UNKNOWN])
                raise BadInput(
                    f"--items: {len(unknown)} of {len(locators)} are not in {name}: {first}; correct the file"
                )
            items = tuple(sorted(items_by_locator.values()))
    can_fetch = locators is not None or isinstance(desk.connector(desk.entry(name)), Windowed)
    if stage is ReplayStage.FETCH and not can_fetch:
        raise BadInput(f"--stage fetch: {name} cannot list a period; leave it out, or choose --items")
    if stage is None:
        stage = ReplayStage.FETCH if can_fetch else ReplayStage.NORMALIZE
    return BackfillSelection(stage, since, until, items)


def survey(desk: Desk, name: str, selection: BackfillSelection) -> Survey:
    """Return the work of a selection now. A window lists the source. Raises the exceptions of `make_plan`."""
    entry = desk.entry(name)
    connector = desk.connector_here(entry)
    with desk.writing() as ledger:
        source = known(desk, ledger, name)
        policy = entry.settings.policy(connector.policy)
        if not selection.is_window:
            with ExitStack() as stack:
                if raw := raw_store(desk.home, connector, policy):
                    stack.enter_context(closing(raw))
                return ledger.backfills.survey(source.id, selection, CODE, readable(connector, raw, selection.stage))
        plan = make_plan(desk.home, ledger, source, connector, policy, window=selection.window)
        return Survey(plan.reads, 0, f"window of {plan.reads}")


def plan(desk: Desk, name: str, selection: BackfillSelection, actor: str, reason: str = "") -> Backfill | None:
    """Store a plan and return it; None if the selection contains no work.

    Raises the exceptions of `survey` and `require_runnable`, and NotFound if no content is kept.
    """
    syncs.require_runnable(desk, desk.entry(name))
    if not (work := survey(desk, name, selection)).total:
        if work.unreadable:
            unkept = f"the content of {work.unreadable:,} documents is not kept"
            raise NotFound(f"{name}: {unkept}; fetch them again with `catchment backfill {name} --items FILE`")
        return None
    with desk.writing() as ledger:
        return ledger.backfills.get(ledger.backfills.plan(known(desk, ledger, name).id, selection, work, actor, reason))


def start(desk: Desk, number: int, actor: str, reason: str = "") -> str:
    """Start a planned backfill. Return the ID of its first run.

    Raises NotFound, Refused if it has started or the work is another one than planned, TryAgain if Catchment is not running.
    """
    with desk.reading() as ledger:
        backfill = ledger.backfills.get(number)
    syncs.require_runnable(desk, desk.entry(backfill.source))
    # The run lists a window itself, and also takes the items that arrived after the plan.
    digest = (
        backfill.survey.digest
        if backfill.selection.is_window
        else survey(desk, backfill.source, backfill.selection).digest
    )
    desk.require_running()
    with desk.writing() as ledger:
        ledger.backfills.start(number, digest, actor, reason)
    return _run(desk, backfill)


def pause(desk: Desk, number: int, actor: str, reason: str = "") -> None:
    """Stop a backfill after its present batch. Raises NotFound, or Refused unless it is running."""
    with desk.writing() as ledger:
        ledger.backfills.pause(number, actor, reason)


def resume(desk: Desk, number: int, actor: str, reason: str = "") -> str:
    """Continue a paused backfill. Return the ID of its run. Raises NotFound, Refused, TryAgain."""
    with desk.reading() as ledger:
        backfill = ledger.backfills.get(number)
    syncs.require_runnable(desk, desk.entry(backfill.source))
    desk.require_running()
    with desk.writing() as ledger:
        ledger.backfills.resume(number, actor, reason)
    return _run(desk, backfill)


def cancel(desk: Desk, number: int, actor: str, reason: str = "") -> int:
    """End a backfill. Its changes stay. Return the number of cancelled jobs. Raises NotFound, or Refused if it is done."""
    with desk.writing() as ledger:
        if ledger.backfills.get(number).state is BackfillState.DONE:
            raise Refused(f"backfill {number}: done; see `catchment backfill show {number}`")
        return ledger.backfills.cancel(number, actor, reason)


def retry(desk: Desk, number: int, actor: str, reason: str = "") -> int:
    """Retry the items of a backfill that are in quarantine, in a sync. Return their number. Raises NotFound."""
    with desk.writing() as ledger:
        backfill = ledger.backfills.get(number)
        released = ledger.backfills.retry(number, actor, reason)
    if released:
        with suppress(TryAgain):
            syncs.start(desk, backfill.source, actor, reason)
    return released


def undo(desk: Desk, number: int, actor: str, reason: str = "") -> tuple[int, Undone | None]:
    """End a backfill and undo its changes of the library.

    Return the number of cancelled jobs, and the undo; None without changes to undo, or if its undo data expired. May be
    repeated to finish an interrupted undo. Raises NotFound, or TryAgain during a sync.
    """
    with desk.writing() as ledger:
        backfill = ledger.backfills.get(number)
        ledger.undo.require_idle(backfill.source, ledger.alive)
        cancelled = 0 if backfill.started is None else ledger.backfills.cancel(number, actor, reason)
        with suppress(NotFound):
            return cancelled, ledger.undo.undo_backfill(number, actor, reason, ledger.alive)
    return cancelled, None


def _run(desk: Desk, backfill: Backfill) -> str:
    return desk.start(desk.entry(backfill.source).kind, backfill.source, backfill=backfill.id)
