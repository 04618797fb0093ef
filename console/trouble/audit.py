"""`catchment audit`: the actions of people, and the proof that the history was not changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from console import arguments, render, session
from console.help_pages import CommandGroup

app = CommandGroup("Show and prove who did what.\n\nExample: catchment audit list --since 7d")

Of = Annotated[
    str | None, typer.Option("--source", metavar="NAME", help="Only this source.", autocompletion=session.source_names)
]
_SHOWN = 20


@app.command("list")
def list_events(
    source: Of = None,
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
        found = acts(ledger, source, actor, since, limit)
    if as_json:
        render.show_json(found)
    elif found:
        table = [
            (one.number, one.at, *map(visible, (one.actor, one.event, one.source or "", one.reason or "")))
            for one in found
        ]
        render.show_table(("N", "TIME", "ACTOR", "EVENT", "SOURCE", "REASON"), table)
    else:
        render.note("no matching events")


@app.command()
def verify(as_json: arguments.Json = False) -> None:
    """Check that no row of the history was changed, added or removed.

    Exits with 1 if the history differs from its hashes or from what was signed.

    Example: catchment audit verify
    """
    from catchment.audit import chain
    from catchment.audit.verify import visible

    with session.reading() as ledger:
        found = chain.verify(session.home(), ledger)
    if as_json:
        render.show_json(found)
    else:
        for problem in found.problems:
            render.say(f"✗ {visible(problem)}")
        if not found.problems:
            signed = f"{found.signed:,} of them signed, by {render.count(found.checkpoints, 'checkpoint')}"
            erased = f", {found.erased:,} erased" if found.erased else ""
            render.say(f"intact: {found.rows:,} rows of the history, {signed}{erased}")
        for restored in found.restored:
            render.say(f"{restored.why}: {restored}")
    if found.problems:
        render.note(
            "if an older copy was put in place of the ledger, `catchment restore FILE` with that copy signs it"
            if found.is_older
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
    source: Of = None,
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
        found = compared(session.home(), ledger, file.expanduser().absolute(), key)
    if as_json:
        render.show_json(found)
        return
    render.say(f"signed with {found.key}, {found.owner}")
    for fate in Fate:
        numbers = [number for number, its in found.fates.items() if its is fate]
        named = ", ".join(map(str, numbers[:_SHOWN])) + (", …" if len(numbers) > _SHOWN else "")
        render.say(f"{fate}: {len(numbers):,}{f' (document {named})' if numbers and fate != Fate.SAME else ''}")
    render.say(f"new: {found.new:,}")


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
