"""`catchment web`: open the page in a browser, signed in, and the link that `up` and `demo` print."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.errors import CatchmentError
from console import render, session
from console.library.open_document import open_address

if TYPE_CHECKING:
    from deployments.server.running import Running


def web(
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the link instead of opening it.")] = False,
) -> None:
    """Open the page: read, search, see trouble and operate.

    The link signs in one browser, once, within five minutes. The browser stays signed in until it is closed.

    Example: catchment web
    """
    link = signin_link(session.needs_server())
    if no_browser:
        render.say(link)
        return
    try:
        open_address(_redirecting_file(link))
    except CatchmentError:
        render.note("no browser could be opened; open the link yourself")
        render.say(link)
    else:
        render.say("Opened the page in the browser; if it did not open: catchment web --no-browser")


def signin_link(server: Running) -> str:
    """Return an address of the page that signs in once, within five minutes."""
    from catchment.runtime import own_secrets

    return f"{server.page_url}/signin?key={own_secrets.one_time_key(session.home().signin_keys)}"


def _redirecting_file(link: str) -> str:
    """Return the address of a private file that leads to the link: all users can see the arguments of the browser."""
    from catchment.runtime import atomic_files

    file = session.home().run / "signin.html"
    atomic_files.write(file, f'<meta http-equiv="refresh" content="0; url={html.escape(link)}">'.encode())
    return file.absolute().as_uri()
