"""`catchment audit`: the actions of people, and the proof that the history was not changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from console import arguments, render, session
from console.help_pages import CommandGroup

app = CommandGroup("Show and prove who did what.\n\nExample: catchment audit list --since 7d")

_SHOWN = 20


@app.command("list")
def list_events(
    source: session.OnlySource = None,
    since: arguments.Since = None,
    actor: Annotated[
        str | None, typer.Option(metavar="NAME", help="By this actor, such as sync: or recovery; default: people.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, metavar="N", help="Maximum number of events.")] = 100,
    as_json: arguments.Json = False,
) -> None:
    """List the actions of people with actor and reason, newest first.

    Example: catchment audit list --source notes --since 30d
    """
    from catchment.audit.acts import acts
    from catchment.audit.verify import visible

    with session.reading() as ledger:
        events = acts(ledger, source, actor, since, limit)
    render.show_rows(
        events,
        as_json,
        ("N", "TIME", "ACTOR", "EVENT", "SOURCE", "REASON"),
        lambda act: (act.number, act.at, *map(visible, (act.actor, act.event, act.source or "", act.reason or ""))),
        "no matching events",
    )


@app.command()
def verify(as_json: arguments.Json = False) -> None:
    """Check that no row of the history was changed, added or removed.

    Exits with 1 if the history differs from its hashes or from what was signed.

    Example: catchment audit verify
    """
    from catchment.audit import chain
    from catchment.audit.verify import visible

    with session.reading() as ledger:
        result = chain.verify(session.home(), ledger)
    if as_json:
        render.show_json(result)
    else:
        for problem in result.problems:
            render.say(f"✗ {visible(problem)}")
        if not result.problems:
            signed = f"{result.signed:,} of them signed, by {render.count(result.checkpoints, 'checkpoint')}"
            erased = f", {result.erased:,} erased" if result.erased else ""
            render.say(f"intact: {result.rows:,} rows of the history, {signed}{erased}")
        for restored in result.restored:
            render.say(f"{restored.why}: {restored}")
    if result.problems:
        render.note(
            "if an older copy was put in place of the ledger, `catchment restore FILE` with that copy signs it"
            if result.is_older
            else "restore the latest backup; to prove the history only from now on, move `audit/checkpoints` away"
        )
        raise typer.Exit(1)


@app.command()
def key(
    action: Annotated[Literal["show", "rotate"], typer.Argument(help="show, or rotate for a new key.")] = "show",
) -> None:
    """Show the key that verifies the history, or make a new one.

    Example: catchment audit key
    """
    from catchment.audit.signing import public_key
    from deployments.actions import library

    public = (
        library.replace_key(session.desk(), session.operator()) if action == "rotate" else public_key(session.home())
    )
    render.show_fields({"key": public.key, "for minisign": public.minisign})


@app.command()
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The tar file to write.")],
    source: session.OnlySource = None,
    since: arguments.Since = None,
) -> None:
    """Write a signed bundle that anybody can verify with Python alone.

    Example: catchment audit export audit.tar --source notes
    """
    from catchment.audit.export import export as write
    from catchment.audit.verify import visible

    with session.reading() as ledger:
        made = write(session.home(), ledger, file.expanduser().absolute(), source, since)
    rows = f"{made.rows:,} of {made.size:,} rows of the history"
    render.say(visible(f"{made.file}: {rows}; its signature is {made.signature.name}"))
    render.note("to verify it: unpack it into an empty folder and run python3 -I verify.py there")


@app.command()
def compare(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A bundle of `catchment audit export`.")],
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The key that signed it; default: one that this home has or had.")
    ] = None,
    as_json: arguments.Json = False,
) -> None:
    """Compare the documents of a bundle with the library.

    Refuses a bundle that was changed, or signed with an unknown key.

    Example: catchment audit compare audit.tar
    """
    from catchment.audit.comparison import Fate
    from catchment.audit.comparison import compare as compared

    with session.reading() as ledger:
        comparison = compared(session.home(), ledger, file.expanduser().absolute(), key)
    if as_json:
        render.show_json(comparison)
        return
    render.say(f"signed with {comparison.key}, {comparison.owner}")
    for fate in Fate:
        numbers = [number for number, its in comparison.fates.items() if its is fate]
        named = ", ".join(map(str, numbers[:_SHOWN])) + (", …" if len(numbers) > _SHOWN else "")
        render.say(f"{fate}: {len(numbers):,}{f' (document {named})' if numbers and fate != Fate.SAME else ''}")
    render.say(f"new: {comparison.new:,}")


@app.command()
def erase(
    older: Annotated[str, typer.Option("--older-than", metavar="TIME", help="Age of at least 90d, or a date.")],
    reason: arguments.Why = "",
) -> None:
    """Erase old steps of items; their hashes stay and prove the rest.

    The steps of the last version of each item stay, and all that people did.

    Example: catchment audit erase --older-than 400d --reason "kept for a year"
    """
    from deployments.actions import library

    number = library.erase_history(session.desk(), arguments.moment(older), session.operator(), reason)
    render.say(f"{render.count(number, 'row')} erased")
