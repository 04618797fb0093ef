"""Files attached to messages of Outlook (.msg) are documents of their own."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest

from catchment.content.normalize.formats import OUTLOOK
from catchment.content.parts.listing import parts_of
from catchment.content.parts.message_members import outlook_members
from catchment.errors import ParseError
from catchment.settings import Home, Limits
from tests.engine.papers import Papers
from tests.engine.test_parts import LETTER, zipped
from tests.normalize import samples

LONG, SHORT, SHOWN, DATA = "3707", "3704", "3001", "37010102"


def message(*attached: dict[str, str | bytes]) -> bytes:
    """Return a message with these properties of its attached files, by tag; text is wide."""
    folders = {
        f"__attach_version1.0_#{number:08X}": {
            f"__substg1.0_{tag if len(tag) == 8 else tag + ('001F' if isinstance(value, str) else '001E')}": (
                value.encode("utf-16-le") if isinstance(value, str) else value
            )
            for tag, value in properties.items()
        }
        for number, properties in enumerate(attached)
    }
    return samples.outlook_message({0x0037: "Minutes", 0x1000: "They are attached."}, folders=folders)


def names(*attached: dict[str, str | bytes]) -> list[str]:
    return [part.path for part in parts_of(io.BytesIO(message(*attached)), OUTLOOK, Limits())]


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({LONG: "the minutes.md", SHORT: "THEMIN~1.MD", SHOWN: "shown"}, "the minutes.md"),
        ({SHORT: "THEMIN~1.MD", SHOWN: "shown.md"}, "THEMIN~1.MD"),
        ({SHOWN: "shown.md"}, "shown.md"),
        ({LONG: "", SHOWN: "shown.md"}, "shown.md"),
        ({LONG: b"b\xfccher f\xfcr alle.md"}, "b\u00fccher f\u00fcr alle.md"),
        ({LONG: "../../\u00fcber.md\0"}, "\u00fcber.md"),
        ({}, "attachment-1"),
    ],
)
def test_attached_file_has_its_longest_name(properties: dict[str, str | bytes], name: str) -> None:
    assert names({**properties, DATA: b"words"}) == [name]


def test_files_are_in_their_order_and_equal_names_differ() -> None:
    attached = [{LONG: name, DATA: name.encode()} for name in ("b.md", "a.md", "b.md")]
    assert names(*attached) == ["b.md", "a.md", "b (2).md"]
    assert names() == []


def test_damaged_message_says_so() -> None:
    with pytest.raises(ParseError, match="the attached files of the message are damaged"):
        list(parts_of(io.BytesIO(message({LONG: "a.md", DATA: b"1"})[:700]), OUTLOOK, Limits()))


def test_attached_files_are_documents(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    papers = Papers(home, folder)
    archive = zipped({"deep.md": "# Deep"})
    mail = message({LONG: "a.md", DATA: b"# Agreed"}, {LONG: "z.zip", DATA: archive}, {SHOWN: "A message"})
    (folder / "m.msg").write_bytes(mail)
    (folder / "in.zip").write_bytes(zipped({"n.msg": message({LONG: "n.md", DATA: b"inside"})}))
    (folder / "disguised.msg").write_bytes(LETTER)
    (folder / "note.msg").write_bytes(b"a plain note")
    papers.sync()
    found = papers.documents()
    assert {path: text for path, text in found.items() if path.endswith(".md")} == {
        "m.msg!/a.md": "# Agreed",
        "m.msg!/z.zip!/deep.md": "# Deep",
        "in.zip!/n.msg!/n.md": "inside",
        "disguised.msg!/minutes.md": "# Agreed",
    }
    assert "note.msg" in found
    (entry,) = papers.ledger.quarantine.page("papers").rows
    assert (entry.item, entry.message) == (
        "m.msg!/A message",
        "a message or object in a message of Outlook; save it as a file of its own",
    )
    assert papers.sync().get("succeeded", 0) == 0


def test_attached_file_has_the_sender_and_the_time_of_a_message_without_a_header() -> None:
    sent = struct.pack("<IIQ", 0x00390040, 6, 133_499_232_000_000_000)  # in 100 ns since 1601
    folders = {
        "__properties_version1.0": bytes(32) + sent,
        "__attach_version1.0_#00000000": {f"__substg1.0_{DATA}": b"words", f"__substg1.0_{LONG}001F": b"a\0.\0m\0d\0"},
    }
    for names, sender in (({0x0C1A: "Ada", 0x0C1F: "ada@x"}, "Ada <ada@x>"), ({0x0C1A: "Ada", 0x0C1F: "/o=x"}, "Ada")):
        data = samples.outlook_message({0x0037: "Minutes", **names}, folders=folders)
        (member,) = outlook_members(io.BytesIO(data))
        assert member.metadata == {"from": sender, "sent": "2024-01-17T00:00:00+00:00"}
