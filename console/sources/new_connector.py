"""`catchment connector`: start a package with a kind of source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catchment.errors import BadInput
from console import render
from console.help_pages import CommandGroup

app = CommandGroup("Write a package with a kind of source.\n\nExample: catchment connector new quotes")


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the kind: lower-case letters, digits and _.")],
) -> None:
    """Write a package with a kind of source into the folder NAME.

    It has tests, which pass, and a README. docs/connectors.md shows how to edit it.

    Example: catchment connector new quotes
    """
    from catchment.runtime.installation import FILES
    from connectors import check_name, kinds

    check_name(name)
    if name in kinds():
        raise BadInput(f"{name}: this kind of source exists; choose another name")
    try:
        Path(name).mkdir()
    except FileExistsError:
        raise BadInput(f"{name}: exists in this folder; choose another name, or another folder") from None
    words = "".join(map(str.capitalize, name.split("_")))
    for file in sorted((FILES / "examples" / "connector").glob("*.*")):
        text = file.read_text(encoding="utf-8").replace("sample", name).replace("Sample", words)
        Path(name, file.name.replace("sample", name)).write_text(text, encoding="utf-8")
    render.say(f"{name}: written; run: pip install --editable {name} && pytest {name}")
