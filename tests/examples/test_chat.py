"""The example package for exports of Telegram."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from catchment_chat import Telegram, TelegramSettings

from catchment.errors import BadInput, SourceInvalid
from connectors.contract.memory_ledger import MemoryLedger
from tests.examples.example_contract import ExampleContract


def message(number: int, date: str, text: Any, **more: Any) -> dict[str, Any]:
    """Return a message as Telegram Desktop 4 writes it."""
    facts = {"id": number, "type": "message", "date": date, "from": "Ada", "from_id": "user1", "text": text}
    return {**facts, "text_entities": [], **more}


def chat(number: int, name: str | None, *messages: dict[str, Any], kind: str = "personal_chat") -> dict[str, Any]:
    return {"name": name, "type": kind, "id": number, "messages": list(messages)}


def write(folder: Path, *chats: dict[str, Any]) -> None:
    export = {"about": "Here is the data", "chats": {"about": "This page lists", "list": list(chats)}}
    (folder / "result.json").write_text(json.dumps(export))


def texts_of(folder: Path) -> dict[str, str]:
    ledger = MemoryLedger()
    ledger.sync(Telegram(TelegramSettings(**TelegramSettings.located(str(folder)))))
    return {name: data.decode() for name, data in ledger.documents().items()}


class TestTelegram(ExampleContract):
    package, kind = "catchment-chat", "telegram"

    def fill(self, place: Path) -> None:
        ada = chat(
            1, "Ada", message(1, "2026-01-31T09:00:00", "The weir"), message(2, "2026-02-01T09:00:00", "is high")
        )
        write(
            place,
            ada,
            chat(2, "Bo", message(3, "2026-01-05T09:00:00", "Eggs")),
            chat(3, "Cy", message(4, "2026-02-05T09:00:00", "Tar")),
        )

    def settings(self, place: Path) -> dict[str, Any]:
        return {"file": place / "result.json"}

    def change(self, place: Path) -> None:
        ada = chat(1, "Ada", message(1, "2026-01-31T09:00:00", "The weir"), message(2, "2026-02-01T09:00:00", "is low"))
        write(
            place,
            ada,
            chat(2, "Bo", message(3, "2026-01-05T09:00:00", "Eggs")),
            chat(4, "Di", message(5, "2026-03-05T09:00:00", "Oak")),
        )

    def lose(self, place: Path) -> None:
        (place / "result.json").unlink()


def test_messages_of_all_types_are_lines(tmp_path: Path) -> None:
    parts = [
        "See ",
        {"type": "text_link", "text": "the plan", "href": "https://example.org/"},
        " and ",
        {"type": "bold", "text": "reply"},
    ]
    write(
        tmp_path,
        chat(
            7,
            "Weir\ngroup",
            {"id": 1, "type": "service", "date": "2026-01-01T00:00:00", "action": "create_group", "text": ""},
            message(2, "2026-01-02T11:00:00", parts, date_unixtime="1767348000"),
            message(3, "2026-01-02T11:01:00", "", date_unixtime="1767348060", photo="photos/1.jpg"),
            message(
                4,
                "2026-01-02T11:02:00",
                "",
                date_unixtime="1767348120",
                media_type="sticker",
                sticker_emoji="🌾",
                file="s.webp",
            ),
            message(
                5,
                "2026-01-02T11:03:00",
                "Read",
                date_unixtime="1767348180",
                file="files/p.pdf",
                file_name="p.pdf",
                forwarded_from="Bo",
            ),
            message(6, "2026-01-02T11:04:00", "\ud83c", date_unixtime="1767348240", **{"from": None}),
            kind="private_supergroup",
        ),
        chat(8, None, message(9, "2026-01-03T00:00:00", "Mine"), kind="saved_messages"),
    )
    assert texts_of(tmp_path) == {
        "Weir group (7)/2026-01.txt": (
            "2026-01-02 10:00 Ada: See the plan (https://example.org/) and reply\n"
            "2026-01-02 10:01 Ada: [photo]\n"
            "2026-01-02 10:02 Ada: [sticker 🌾]\n"
            "2026-01-02 10:03 Ada: [from Bo] Read [file p.pdf]\n"
            "2026-01-02 10:04 Deleted Account: �\n"
        ),
        "saved messages (8)/2026-01.txt": "2026-01-03 00:00 Ada: Mine\n",
    }


def test_export_of_one_conversation_is_read(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps(chat(1, "Ada", message(1, "2026-01-31T09:00:00", "Hello"))))
    assert list(texts_of(tmp_path)) == ["Ada (1)/2026-01.txt"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"chats": []}',
        b'{"chats": {"list": [7]}}',
        b'{"id": 1, "name": "A", "type": "x", "messages": [{"type": "message", "text": "", "date": "soon"}]}',
        b'{"id": 1, "name": "A", "type": "x", "messages": [{"type": "message", "text": 5, "date": "2026-01-01"}]}',
        b'{"id": 1, "type": "x", "messages": [{"type": "message", "text": "", "date_unixtime": "99999999999999999"}]}',
        b"[" * 100_000,
    ],
)
def test_file_that_is_no_export_is_refused_and_nothing_is_deleted(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "result.json").write_bytes(content)
    with pytest.raises(SourceInvalid, match="cannot be listed: no export of Telegram; export again"):
        Telegram(TelegramSettings(file=tmp_path / "result.json")).probe()


def test_location_without_an_export_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"'result.json': no such file; correct the path"):
        TelegramSettings.located(str(tmp_path))
