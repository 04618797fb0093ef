"""How a message of mail is shown: the writer's own words apart, what is attached, and the conversation around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catchment.model import PART
from console import render

if TYPE_CHECKING:
    from catchment.ledger import Shown

_AROUND = 10
"""Messages before and after the one that is shown; `related` and `--json` tell all."""


def is_message(shown: Shown) -> bool:
    """Whether a document is a message."""
    return bool(shown.thread)


def show_words(text: str) -> None:
    """Write what the writer says, and in place of each quotation or signature how long it is."""
    from catchment.content.extract.mail import stretches

    for part, is_aside in stretches(text):
        lines = render.clean_block(part.strip("\n"))
        if is_aside:
            what = "line of signature" if lines.startswith("--") else "quoted line"
            written = sum(bool(line.strip("> -")) for line in lines.splitlines())
            how_many = render.count(written, what, what.replace("line", "lines"))
            lines = render.paint(f"[{how_many}; see all with --full]", "dim")
        if lines:
            render.say(lines)


def show_attached(shown: Shown) -> None:
    """Write what a message carries, with the documents that became of it."""
    if shown.attached:
        render.say()
        rows = [(file.document, file.name, file.media_type) for file in shown.attached]
        render.show_table(("ATTACHED", "NAME", "TYPE"), rows)


def show_thread(shown: Shown) -> None:
    """Write the messages of the conversation around this one."""
    if len(shown.thread) < 2:
        return
    here = [one.document for one in shown.thread].index(shown.document)
    around = range(max(0, here - _AROUND), min(len(shown.thread), here + _AROUND + 1))
    render.say()
    render.say(render.paint(f"Message {here + 1} of {len(shown.thread)} in its conversation", "bold"))
    render.show_table(
        ("", "DOCUMENT", "SENT", "FROM", "SUBJECT"),
        [
            (">" if place == here else "", one.document, one.sent and render.local(one.sent), one.author, one.title)
            for place, one in enumerate(shown.thread)
            if place in around
        ],
    )


def relation(how: str, document: int | None, title: str, source: str, item: str) -> dict[str, Any]:
    """One thing that belongs to a document, as `related --json` prints it."""
    return {"relation": how, "document": document, "title": title, "source": source, "item": item}


def relations(shown: Shown) -> list[dict[str, Any]]:
    """What a message, or a file in one, belongs to, as `related --json` prints it."""
    found = []
    if is_message(shown):
        here = [one.document for one in shown.thread].index(shown.document)
        for place, one in enumerate(shown.thread):
            if place != here:
                how = "earlier in the thread" if place < here else "later in the thread"
                found.append(relation(how, one.document, one.title, one.source, one.item))
    if shown.carrier is not None:
        found.append(relation("attached to", shown.carrier, "", shown.source, shown.item.rpartition(PART)[0]))
    for file in shown.attached:
        found.append(relation("attached", file.document, file.name, shown.source, f"{shown.item}{PART}{file.part}"))
    return found


def as_json(shown: Shown) -> dict[str, Any]:
    """What `show --json` says of a message besides."""
    from catchment.content.extract.mail import stretches

    own = [part for part, is_aside in stretches(shown.content.text) if not is_aside] if is_message(shown) else None
    return {
        "own_text": None if own is None else "".join(own),
        "thread": [one._asdict() for one in shown.thread],
        "attached": [file._asdict() for file in shown.attached],
        "attached_to": shown.carrier,
    }
