"""`catchment backfill` and `replay`: work apart from the listing, such as older mail, or reading again with newer code."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.errors import BadInput, UserError
from catchment.model import ReplayStage
from catchment.runtime.home import expanded
from console import arguments, render, session
from console.help_pages import CommandGroup
from console.library import documents, versions
from console.trouble.undo import show_counts

if TYPE_CHECKING:
    from catchment.ledger import Backfill, BackfillSelection

app = CommandGroup(
    "Fetch an older period, or read items again.\n\nExample: catchment backfill mail --from 2024-01-01 --to 2024-07-01",
    default="new",
)


_LOOK_SECONDS = 0.5

Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is done, or paused.")]
Number = Annotated[int, typer.Argument(metavar="NUMBER", max=arguments.LARGEST, help="Number of the backfill.")]


def _day(option: str, help_text: str) -> Any:
    return typer.Option(option, metavar="DAY", parser=arguments.moment, help=help_text)


@app.command("new")
def new(
    name: session.SourceName,
    since: Annotated[
        datetime | None, _day("--from", "First day, such as 2024-01-01 or 90d. Without it: no beginning.")
    ] = None,
    until: Annotated[datetime | None, _day("--to", "Day after the last one. Without it: no end.")] = None,
    items: Annotated[
        Path | None,
        typer.Option("--items", metavar="FILE", help="Only items whose paths are in this file, one a line."),
    ] = None,
    stage: Annotated[
        ReplayStage | None,
        typer.Option(metavar="STAGE", help="First step: fetch, recognize, normalize, extract or embed."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only store the plan, to be started by its number.")
    ] = False,
    wait: Wait = False,
    reason: arguments.Why = "",
    as_json: arguments.Json = False,
) -> None:
    """Plan a backfill and start it. `new` may be left out.

    Needs --from, --to or --items, for every kind of source: there is no default period. Mail and GitHub: fetches the items
    of the period that are missing. Other kinds: reads the documents of the period again, if newer code would read them
    otherwise. --items fetches or reads these items again.

    Without --stage: fetch for mail, GitHub and --items, else normalize. Ordinary syncs go before a backfill.

    Example: catchment backfill new mail --from 2024-01-01 --to 2024-07-01 --dry-run
    """
    from deployments.actions import backfills

    paths = None if items is None else _paths(items)
    what = backfills.window(session.desk(), name, since, until, stage, paths)
    _plan([(name, what)], dry_run=dry_run, wait=wait, reason=reason, as_json=as_json)


@app.command("list")
def list_backfills(
    source: Annotated[
        str | None,
        typer.Argument(metavar="[SOURCE]", help="Only of this source.", autocompletion=session.source_names),
    ] = None,
    as_json: arguments.Json = False,
) -> None:
    """List backfills, latest first.

    Example: catchment backfill list
    """
    with session.reading() as ledger:
        if source:
            ledger.sources.get(source)
        rows = ledger.backfills.page(source).rows
    if as_json:
        render.show_json(rows)
    elif rows:
        _table(rows)
    else:
        render.note("no backfills; see `catchment backfill --help`")


@app.command("show")
def show(number: Number, as_json: arguments.Json = False) -> None:
    """Show the progress of a backfill, and what it changed most.

    Example: catchment backfill show 3
    """
    from catchment.views.work import backfills as views

    with session.reading() as ledger:
        view = views.backfill(ledger, number)
    if as_json:
        render.show_json(view)
        return
    backfill = view.backfill
    render.show_fields(
        {
            "backfill": backfill.id,
            "source": backfill.source,
            "state": backfill.state,
            "reason": backfill.reason,
            "work": described(backfill.selection),
            "progress": _progress(backfill),
            "failed": backfill.quarantined or None,
            "not readable": backfill.survey.unreadable or None,
            "planned": backfill.created,
            "by": backfill.created_by,
            "started": backfill.started,
            "changed texts": view.changed or None,
        }
    )
    if view.largest:
        render.say()
        rows = [(change.document, change.path, change.was, change.now) for change in view.largest]
        render.show_table(("DOCUMENT", "ITEM", "CHARACTERS BEFORE", "NOW"), rows)
        render.say("What changed in one: `catchment diff DOCUMENT`.")


@app.command("start")
def start(number: Number, reason: arguments.Why = "") -> None:
    """Start a planned backfill, if nothing has changed since.

    NUMBER: as `backfill new --dry-run` and `backfill list` show it. A period of mail or GitHub is listed anew; a replay is
    refused if items or code have changed. Refused, too, while an unfinished backfill of the source overlaps it.

    Example: catchment backfill start 3
    """
    from deployments.actions import backfills

    backfills.start(session.desk(), number, session.operator(), reason)
    _started([number])


@app.command("pause")
def pause(number: Number, reason: arguments.Why = "") -> None:
    """Stop a backfill after its present batch.

    Example: catchment backfill pause 3
    """
    from deployments.actions import backfills, outcomes

    backfills.pause(session.desk(), number, session.operator(), reason)
    render.say(f"{outcomes.BACKFILL_PAUSED.format(number)}; continue: `catchment backfill resume {number}`")


@app.command("resume")
def resume(number: Number, reason: arguments.Why = "") -> None:
    """Continue a paused backfill.

    Example: catchment backfill resume 3
    """
    from deployments.actions import backfills

    backfills.resume(session.desk(), number, session.operator(), reason)
    _started([number])


@app.command("cancel")
def cancel(number: Number, reason: arguments.Why = "") -> None:
    """End a backfill for good. What it did stays.

    Example: catchment backfill cancel 3
    """
    from deployments.actions import backfills, outcomes

    ended = backfills.cancel(session.desk(), number, session.operator(), reason)
    render.say(f"{outcomes.backfill_cancelled(number, ended)}; what it did: `catchment backfill show {number}`")


@app.command("retry")
def retry(number: Number, reason: arguments.Why = "") -> None:
    """Retry the failed items of a backfill.

    Example: catchment backfill retry 3
    """
    from deployments.actions import backfills, outcomes

    released = backfills.retry(session.desk(), number, session.operator(), reason)
    render.say(outcomes.backfill_retried(number, released))


@app.command("undo")
def undo(number: Number, reason: arguments.Why = "") -> None:
    """Undo what a backfill changed in the library.

    Example: catchment backfill undo 3
    """
    from deployments.actions import backfills, outcomes

    cancelled, undone = backfills.undo(session.desk(), number, session.operator(), reason)
    if cancelled:
        render.say(outcomes.backfill_cancelled(number, cancelled))
    if undone is not None and undone.actions:
        show_counts(undone)
    else:
        render.say("it changed nothing that can be undone")


def replay(
    document: Annotated[
        str | None, typer.Argument(metavar="[DOCUMENT]", help="Only this document, as in `catchment show`.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="All files of this source.", autocompletion=session.source_names),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All files.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Items in quarantine: retries them.")] = False,
    stage: Annotated[
        ReplayStage, typer.Option("--from", metavar="STAGE", help="From: recognize, normalize, extract or embed.")
    ] = (ReplayStage.NORMALIZE),
    dry_run: arguments.DryRun = False,
    wait: Wait = False,
    reason: arguments.Why = "",
    as_json: arguments.Json = False,
) -> None:
    """Read files again that another version read, or could not read.

    The version is that of Catchment and of readers of other packages. Uses kept raw content or the files, and no network. Waits
    for a single document, and shows what changed in it. `catchment backfill undo NUMBER` takes it back.

    Example: catchment replay --all --dry-run
    """
    from catchment.ledger import BackfillSelection
    from console.trouble import quarantine

    if stage is ReplayStage.FETCH:
        raise BadInput("--from fetch: asks the source; use `catchment backfill NAME --items FILE`")
    if sum((document is not None, source is not None or failed, everything)) != 1:
        raise BadInput("replay: choose a document, --source, --failed or --all")
    if failed:
        quarantine.retry(everything=source is None, source=source, dry_run=dry_run)
        return
    items = None
    with session.reading() as ledger:
        if document is not None:
            shown = documents.named(ledger, document)
            names, items = [shown.source], (shown.item_id,)
        else:
            names = (
                [row.name for row in ledger.sources.all()] if everything else [ledger.sources.get(source or "").name]
            )
    what = BackfillSelection(stage, items=items)
    selections = [(name, what) for name in names]
    wait |= document is not None
    before = datetime.now(UTC)
    started = _plan(selections, dry_run=dry_run, wait=wait, reason=reason, as_json=as_json, keep=False)
    if document is not None and started and not as_json:
        versions.diff(document, before)


def described(what: BackfillSelection) -> str:
    """Return a selection in words."""
    parts = [what.stage.words]
    if what.items is not None:
        parts.append(render.count(len(what.items), "item"))
    if what.since is not None:
        parts.append(f"since {what.since:%Y-%m-%d}")
    if what.until is not None:
        parts.append(f"before {what.until:%Y-%m-%d}")
    return ", ".join(parts)


def _plan(
    selections: Sequence[tuple[str, BackfillSelection]],
    *,
    dry_run: bool,
    wait: bool,
    reason: str,
    as_json: bool,
    keep: bool = True,
) -> bool:
    """Plan backfills, and start those with work, unless it is a dry run. Return whether any was started.

    `keep`: a dry run stores the plans.
    """
    from deployments.actions import backfills, outcomes

    desk, operator = session.desk(), session.operator()
    if dry_run and not keep:
        surveys = [backfills.SourceSurvey(name, backfills.survey(desk, name, what)) for name, what in selections]
        if as_json:
            render.show_json(surveys)
        else:
            rows = [(row.source, row.survey.total, row.survey.unreadable) for row in surveys]
            render.show_table(("SOURCE", "TO READ AGAIN", "NOT KEPT"), rows)
        return False
    if not dry_run:
        desk.require_running()
    planned: list[Backfill] = []
    for name, what in selections:
        try:
            plan = backfills.plan(desk, name, what, operator, reason)
            if plan is not None and not dry_run:
                backfills.start(desk, plan.id, operator, reason)
            planned += filter(None, [plan])
        except UserError as error:
            if len(selections) == 1:
                raise
            render.note(f"left out: {error}")
    if wait and not dry_run:
        planned = _finished([backfill.id for backfill in planned])
    if as_json:
        render.show_json(planned)
    elif not planned:
        render.say(outcomes.NOTHING_TO_BACKFILL)
    elif dry_run:
        _table(planned)
        render.say("Start it: `catchment backfill start NUMBER`.")
    elif wait:
        _table(planned)
    else:
        _started([backfill.id for backfill in planned])
    return bool(planned) and not dry_run


def _finished(numbers: Sequence[int]) -> list[Backfill]:
    """Wait until none of these backfills runs, and return them."""
    with session.reading() as ledger:
        while True:
            rows = [ledger.backfills.get(number) for number in numbers]
            if not any(backfill.is_running for backfill in rows):
                return rows
            time.sleep(_LOOK_SECONDS)


def _started(numbers: Sequence[int]) -> None:
    from deployments.actions import outcomes

    for number in numbers:
        render.say(f"{outcomes.BACKFILL_STARTED.format(number)}; progress: `catchment backfill show {number}`")


def _paths(file: Path) -> list[str]:
    try:
        lines = expanded(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"{file.name}: cannot be read; give a text file with one path on each line") from None
    if not (paths := [line for line in lines if line.strip()]):
        raise BadInput(f"{file.name}: empty; write one path on each line")
    return paths


def _table(rows: Sequence[Backfill]) -> None:
    headers = ("BACKFILL", "SOURCE", "STATE", "WORK", "PROGRESS", "FAILED")
    table = [
        (
            backfill.id,
            backfill.source,
            backfill.state,
            described(backfill.selection),
            _progress(backfill),
            backfill.quarantined or "",
        )
        for backfill in rows
    ]
    render.show_table(headers, table)


def _progress(backfill: Backfill) -> str:
    return f"{backfill.done:,} of {backfill.total:,}"
