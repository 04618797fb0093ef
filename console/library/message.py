"""Display of mail: own text without quotations, attachments, and the surrounding conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import render

if TYPE_CHECKING:
    from catchment.views.documents import DocumentView

_AROUND = 10
"""Number of messages shown before and after; `related` and `--json` list all."""


def show_words(view: DocumentView) -> None:
    """Print the text; replace each quotation and signature by its number of lines."""
    for part, is_aside in view.parts:
        lines = render.clean_block(part.strip("\n"))
        if is_aside:
            noun = "line of signature" if lines.startswith("--") else "quoted line"
            number = sum(bool(line.strip("> -")) for line in lines.splitlines())
            hidden = render.count(number, noun, noun.replace("line", "lines"))
            lines = render.paint(f"[{hidden}; show all with --full]", "dim")
        if lines:
            render.say(lines)


def show_attached(view: DocumentView) -> None:
    """Print the attachments of a message, or the files inside of a container, with their documents."""
    if not view.attached:
        return
    render.say()
    rows = [(file.document, file.name, file.left_out or file.media_type) for file in view.attached]
    total = view.files_inside
    render.show_table(("ATTACHED" if total is None else "INSIDE", "NAME", "TYPE"), rows)
    if total is not None and total > len(rows):
        render.say(f"The first {len(rows):,} of {total:,} files; the others: `catchment search 'in:\"{view.item}!\"'`.")


def show_conversation(view: DocumentView) -> None:
    """Print the messages around this one in its conversation."""
    if len(view.conversation) < 2:
        return
    current = view.position
    around = range(max(0, current - _AROUND), min(len(view.conversation), current + _AROUND + 1))
    render.say()
    count = len(view.conversation)
    shown = "" if len(around) == count else f"; {len(around)} shown, the others: `catchment related {view.document}`"
    render.say(render.paint(f"Message {current + 1} of {count} in its conversation{shown}", "bold"))
    render.show_table(
        ("", "DOCUMENT", "SENT", "FROM", "SUBJECT"),
        [
            (
                ">" if index == current else "",
                message.document,
                message.sent and render.local(message.sent),
                message.author,
                message.title,
            )
            for index, message in enumerate(view.conversation)
            if index in around
        ],
    )
