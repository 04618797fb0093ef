"""`catchment check --objectives` and `catchment telemetry show`: objectives, and trends of the last hour, day or month."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from catchment.errors import BadInput
from console import arguments, render, session

if TYPE_CHECKING:
    from catchment.telemetry.objectives import Burn
    from catchment.views.telemetry.trends import Trend, Values

_NAMES: Final = {
    "throughput": "stored",
    "duration": "sync time",
    "latency": "save to found",
    "backlog": "backlog",
    "failures": "failures",
    "retries": "retries",
}


def slo(as_json: arguments.Json = False) -> None:
    """Show whether the objectives are kept.

    At a burn of 1, exactly the permitted share is bad. An objective burns if the rate is too high in a long window and in the
    last twelfth of it. First syncs do not count. Targets are set in `alerts.yaml` in the home folder.

    Example: catchment check --objectives
    """
    from catchment.views.telemetry.objectives import objectives, settings

    with session.reading() as ledger:
        states = objectives(ledger, settings(session.home()), ledger.now())
    if as_json:
        render.show_json(states)
        return
    headers = ("OBJECTIVE", "STATE", "24 H", *(f"BURN {burn.hours} H" for burn in states[0].burns))
    rows = [
        (
            state.text,
            state.status.value,
            "" if state.good is None else f"{100 * state.good:.4g} %",
            *map(_burn, state.burns),
        )
        for state in states
    ]
    render.show_table(headers, rows)


def show(
    *,
    hours: Annotated[int | None, typer.Option(metavar="1|24", help="The last hour or day. Default: 24.")] = None,
    days: Annotated[int | None, typer.Option(metavar="30", help="The last 30 days.")] = None,
    source: session.OnlySource = None,
    as_json: arguments.Json = False,
) -> None:
    """Show the trends of the last hour, day or month.

    p95 is the time that 95 of 100 need at most, p50 the median. `!` marks an unusual trend.

    Example: catchment telemetry show --days 30 --source notes
    """
    from catchment.views.telemetry.trends import TrendRange, trends

    period = f"{hours}h" if hours and not days else f"{days}d" if days and not hours else TrendRange.DAY.value
    if period not in list(TrendRange) or (hours and days):
        raise BadInput("--hours, --days: choose --hours 1, --hours 24 or --days 30")
    chosen = TrendRange(period)
    with session.reading() as ledger:
        view = trends(ledger, chosen, source, ledger.now())
    if as_json:
        render.show_json(view)
        return
    rows = []
    for trend in view.trends:
        name = _NAMES[trend.name]
        rows.append(_row(f"{name} p95" if trend.half else name, trend, trend.values))
        if trend.half:
            rows.append(_row(f"{name} p50", trend, trend.half))
    render.show_table(("", f"LAST {chosen.value.upper()}", "NOW", "LEAST", "MOST", "UNIT"), rows)


def _burn(burn: Burn) -> str:
    return "" if burn.rate is None else f"{burn.rate:.1f}"


def _row(name: str, trend: Trend, values: Values) -> tuple[str, ...]:
    known = [value for value in values if value is not None]
    figures = (values[-1], min(known), max(known)) if known else (None, None, None)
    shown = (
        "" if value is None else f"{round(value, 2):.4g}" if value < 1_000 else f"{value:,.0f}" for value in figures
    )
    mark = " !" if trend.unusual and trend.unusual[-1] >= len(values) - 2 else ""
    return (name + mark, render.spark(values), *shown, trend.unit)
