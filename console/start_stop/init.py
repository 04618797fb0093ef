"""The first steps: the overview of plain `catchment`, and `catchment init`, which leads from three questions to a search."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from catchment.errors import BadInput, SourceError
from catchment.runtime.home import base_folder, expanded
from catchment.runtime.membership import Membership
from console import render, session

if TYPE_CHECKING:
    from catchment.ledger import Ledger
    from catchment.search.results import Hit
    from deployments.actions.sources import NewSource

_LATEST, _TITLE_WORDS = 100, 4
_WRITTEN = frozenset({"text/markdown", "text/plain", "message/rfc822"})
_EVERY = "1h"
"""Interval of a source that is not watched."""

_OTHER_SOURCES = "to add mail or web pages, press Ctrl-C and see: catchment add --help"


def show_overview() -> None:
    """Show a description of Catchment, the state of this home, and the next command. Quick: reads no ledger."""
    from deployments.server.running import running, transition

    home = session.home()
    names = _source_names(home.sources_file)
    server, state = running(home), transition(home)
    render.say("Files, notes, mail, GitHub and web pages in one library on this machine.\n")
    shown = "unreadable" if names is None else ", ".join(names) or "none yet"
    is_elsewhere = server is not None and server.is_elsewhere
    running_at = (
        "stopped" if server is None else "in another container" if is_elsewhere else f"running: {server.page_url}"
    )
    membership = Membership.of(home)
    host = {"host": f"{membership.name}, with the server at {membership.server}"} if membership else {}
    render.show_fields({"home": home.path, **host, "sources": shown, "state": state or running_at})
    if names is None:
        command, effect = "catchment config validate", "names the line of sources.yaml to correct"
    elif not names:
        command, effect = "catchment init", "asks three questions and ends with a search"
    elif state:
        command, effect = "catchment status --watch", f"shows when it is no longer {state}"
    elif server is None:
        command, effect = "catchment up --detach", "starts it; searches by words work already"
    elif is_elsewhere:
        command, effect = "catchment search WORDS", "works here; run other commands in the container"
    else:
        command, effect = "catchment web", "opens the page: search, read, see trouble"
    render.say(f"\nNext:          {render.paint(command, 'bold')}   # {effect}")
    render.say("All commands:  catchment help --all")


def init() -> int:
    """Set up a first source: three questions, then a search.

    Nothing is stored before the last answer. After an interruption, the command continues.

    Example: catchment init
    """
    if not render.interactive():
        raise BadInput(
            "not a terminal; use: catchment add obsidian FOLDER --name notes --watch, then: catchment up --detach"
        )
    desk = session.desk()
    new = None if desk.entries() else _ask()
    waiting = [new.name] if new else _never_synced(list(desk.entries()))
    if not waiting:
        render.say("Catchment is set up here already. To add a source: catchment add --help\n")
        show_overview()
        return 0
    names = ", ".join(waiting)
    is_started = session.running() is not None or _confirm(f"Start Catchment and read {names} now?")
    if new:
        from deployments.actions import sources

        render.say(f"added {new.name}: {render.clean(sources.add(desk, new, session.operator()))}")
    if not is_started:
        render.say("Continue with: catchment init")
        return 0
    return _start(waiting)


def _ask() -> NewSource:
    """Ask for the folder until it can be read, and whether to watch it."""
    from deployments.actions.desk import Timing
    from deployments.actions.sources import ADDRESSES, NewSource

    render.say("Catchment reads a folder into a searchable library. The folder is not changed.\n")
    with suppress(ImportError):
        import readline

        readline.set_completer_delims("")
        readline.set_completer(_complete_folder)
        readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
    vaults = _vaults()
    for number, vault in enumerate(vaults, 1):
        render.say(f"  {number}  {render.place(vault)}")
    desk, what = session.desk(), "Folder or Obsidian vault" + (", or its number" if vaults else "")
    while True:
        answer = typer.prompt(what, default="1" if vaults else None, err=True).strip()
        is_number = answer.isdecimal() and 1 <= int(answer) <= len(vaults)
        folder = vaults[int(answer) - 1] if is_number else _folder(answer)
        if folder is None:
            remedy = _OTHER_SOURCES if re.search("@|://", answer) else "type its path, such as ~/Notes"
            render.note(f"{render.clean(answer)}: not a folder; {remedy}")
            continue
        if Path.home().is_relative_to(folder):
            render.note(f"{render.clean(answer)}: contains your home folder; type a folder inside it")
            continue
        kind = "obsidian" if (folder / ".obsidian").is_dir() else "local_files"
        words = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")[:40]
        name = words if words not in ("", *ADDRESSES) else "notes"
        new = NewSource(kind, str(folder), name)
        try:
            desk.connector(new.written(desk)).probe()
            break
        except (BadInput, SourceError) as error:
            render.note(render.clean(error))
    watch = _confirm(f"Watch it for changes? Otherwise it is read every {_EVERY}.")
    return NewSource(kind, str(folder), name, timing=Timing(watch=watch, every=None if watch else _EVERY))


def _folder(answer: str) -> Path | None:
    """Return the folder of an answer, also with the quotes of a shell, which terminals add to dropped folders."""
    paths = [answer]
    with suppress(ValueError):
        paths.append(" ".join(shlex.split(answer)))
    for path in filter(None, paths):
        with suppress(OSError):
            if (folder := expanded(Path(path)).absolute()).is_dir():
                return folder
    return None


def _confirm(question: str) -> bool:
    return typer.confirm(question, default=True, err=True)


def _start(names: list[str]) -> int:
    """Start Catchment, sync the sources, ask a question about a document, and show the link of the page."""
    from console.library.search import find, show_hit
    from console.sources.syncs import sync
    from console.start_stop.web_page import signin_link
    from deployments.supervisor.supervisor import up

    if session.running() is None:
        render.say("Starting the Prefect server and a worker.")
        with render.ticking(lambda: "Starting"):
            up(session.home(), detach=True, announce=lambda _: None)
    code = max(sync(name, wait=True) for name in names)
    latest = find(f"source:{names[0]}", None, "words", limit=_LATEST).hits
    if subject := next(filter(None, [*map(_subject, latest), *(hit.title for hit in latest)]), ""):
        question = " ".join(["what do I have about", *re.findall(r"\w+", subject)[:_TITLE_WORDS]])
        render.say(f"\nA question about a note of yours: {render.paint(f'catchment search {question}', 'bold')}")
        for hit in find(question, None, "both", limit=2).hits:
            show_hit(hit)
    else:
        render.note(f"{names[0]}: no document was found; see: catchment status")
    render.say(f"\nPage: {signin_link(session.needs_server())}")
    render.say("Later: catchment web opens it; catchment down stops Catchment.")
    return code


def _subject(hit: Hit) -> str:
    """Return the words of the title of a document that a person has written; "" for templates, dates and others."""
    words = re.findall(r"[^\W\d_]{2,}", hit.title)
    is_own = hit.media_type in _WRITTEN and not re.search("templat|untitled", hit.item, re.IGNORECASE)
    return " ".join(words) if is_own and len(words) > 1 else ""


def _complete_folder(start: str, number: int) -> str | None:
    """Complete the path of a folder at Tab, as a shell does."""
    base, slash, name = start.rpartition("/")
    with suppress(OSError):
        folders = [path.name for path in expanded(Path(f"{base}{slash}")).iterdir() if path.is_dir()]
        is_shown = (each for each in sorted(folders) if each.startswith(name) and each[:1] != "." * (not name))
        return next((f"{base}{slash}{each}/" for each in islice(is_shown, number, None)), None)
    return None


def _never_synced(names: list[str]) -> list[str]:
    def never_synced(ledger: Ledger) -> list[str]:
        known = {source.name: source.id for source in ledger.sources.all()}
        return [name for name in names if name not in known or ledger.syncs.last(known[name]) is None]

    return session.asked(never_synced, names)


def _source_names(file: Path) -> list[str] | None:
    """Return the names of the sources without checking the file; None if it is no valid YAML of this kind."""
    import yaml

    try:
        return [str(entry["name"]) for entry in yaml.safe_load(file.read_bytes())["deployments"] or ()]
    except FileNotFoundError:
        return []
    except (OSError, yaml.YAMLError, LookupError, TypeError, ValueError):
        return None


def _vaults() -> list[Path]:
    """Return Obsidian's vaults: first those in its list, the last opened first, then those in the usual folders."""
    home, opened = Path.home(), {}
    for file in (
        base_folder("XDG_CONFIG_HOME", ".config") / "obsidian" / "obsidian.json",
        home / ".var/app/md.obsidian.Obsidian/config/obsidian/obsidian.json",
        home / "snap/obsidian/current/.config/obsidian/obsidian.json",
    ):
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            for vault in json.loads(file.read_bytes())["vaults"].values():
                opened[Path(vault["path"])] = int(vault["ts"])
    listed = sorted(opened, key=opened.__getitem__, reverse=True)
    usual = [marker.parent for base in (home, home / "Documents") for marker in sorted(base.glob("*/.obsidian"))]
    return [vault for vault in dict.fromkeys([*listed, *usual]) if (vault / ".obsidian").is_dir()]
