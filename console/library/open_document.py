"""`catchment open`: show a document in the program that it belongs to.

No shell is involved, and only addresses of known schemes are passed on, because the names in them are untrusted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlsplit

import typer

from catchment.errors import CatchmentError, NotFound, Refused
from catchment.model import outer_files
from console import render, session
from console.library.documents import Document, named

if TYPE_CHECKING:
    from catchment.ledger import Shown

_IN_OBSIDIAN = frozenset({".md", ".canvas", ".base"})
_PROGRAMS = frozenset(
    {".app", ".appimage", ".command", ".desktop", ".exe", ".jar", ".lnk", ".msi", ".run", ".scpt"}
    | {".terminal", ".tool", ".url", ".webloc", ".workflow"}
)
"""Suffixes of files that some systems start instead of showing them."""
_PAGES = ("https", "http")
_STARTED_SECONDS = 3
"""Time in which the opener reports an error; after it, a program is assumed to be shown."""


def open_document(
    document: Document,
    only_print: Annotated[bool, typer.Option("--print", help="Print the address instead of opening it.")] = False,
) -> None:
    """Open a document as a file, in Obsidian, or on the web.

    Mail on a server opens on our page while Catchment runs; otherwise read it with `catchment show`.

    Example: catchment open 42
    """
    with session.reading() as ledger:
        shown = named(ledger, document)
    address = _address(shown)
    if only_print:
        render.say(render.clean(address))
    else:
        open_address(address)


def _address(shown: Shown) -> str:
    """Return the address of a document. Raises NotFound if it has none, or Refused if it could start a program."""
    from catchment.views.hosts import elsewhere

    url = shown.metadata.get("url")
    if isinstance(url, str) and urlsplit(url).scheme in _PAGES:
        return url
    entry = session.desk().entries().get(shown.source)
    root = getattr(entry.settings, "root", None) if entry else None
    if entry is None or root is None:
        host = elsewhere(session.home(), shown.source)
        if server := session.running():
            if host:
                render.note(f"{shown.item}: its file is on {host}; this is its text")
            return f"{server.page_url}/documents/{shown.document}"
        if host:
            raise NotFound(f"{shown.item}: its file is on {host}; read it with `catchment show {shown.document}`")
        subject = "message" if shown.conversation else "document"
        raise NotFound(f"{subject} {shown.document}: has no address; read it with `catchment show {shown.document}`")
    return _file_address(shown, Path(root), is_vault=entry.kind == "obsidian")


def _file_address(shown: Shown, root: Path, *, is_vault: bool) -> str:
    from connectors.folders.file import to_path

    if outer := next((outer for outer in outer_files(shown.item) if (root / to_path(outer)).is_file()), None):
        raise NotFound(f"{shown.item}: inside of {outer}; read it with `catchment show {shown.document}`")
    path = PurePosixPath(to_path(shown.item))
    file = root / path
    if path.is_absolute() or ".." in path.parts or not file.is_file():
        raise NotFound(f"{shown.item}: no longer in its folder; update the library: catchment sync {shown.source}")
    suffix = file.suffix.lower()
    if is_vault and suffix in _IN_OBSIDIAN:
        return f"obsidian://open?path={quote(os.fsencode(file.absolute()), safe='')}"
    if suffix in _PROGRAMS or (not suffix and os.access(file, os.X_OK)):
        raise Refused(f"{shown.item}: may start a program; read it with `catchment show {shown.document}`")
    return file.absolute().as_uri()


def open_address(address: str) -> None:
    """Pass an address to the opener of the desktop. Raises CatchmentError if there is none, or if it fails."""
    name = "open" if sys.platform == "darwin" else "xdg-open"
    opener = shutil.which(name)
    if opener is None:
        raise CatchmentError(f"{name}: not installed; open it yourself: {address}")
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123 - for reading and writing
        process = subprocess.Popen(
            [opener, address], stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
        )
    try:
        code = process.wait(_STARTED_SECONDS)
    except subprocess.TimeoutExpired:
        return
    if code:
        raise CatchmentError(f"{name}: failed with exit code {code}; open it yourself: {address}")
