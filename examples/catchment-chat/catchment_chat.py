"""Chats of Telegram, as Telegram Desktop exports them in the format JSON: a document for each conversation and month."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from catchment.content.foreign_json import read_json
from catchment.contracts import Manifest
from catchment.errors import BadInput, ParseError, SourceUnavailable
from catchment.settings import FullPath, Limits, Policy, SourceSettings, expanded
from connectors.listing import Entry, Listing


class TelegramSettings(SourceSettings):
    """Settings of a `telegram` source."""

    identity: ClassVar[tuple[str, ...]] = ("file",)
    file: FullPath = Field(title="Export", description="Full path of the file result.json of an export")
    assistants: bool = Field(
        False, title="Assistants", description="Let assistants (`catchment mcp`) search and read these chats"
    )

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """Return the settings for the path of an export: its file or its folder."""
        path = expanded(Path(location)).absolute()
        file = path / "result.json" if path.is_dir() else path
        if not file.is_file():
            raise BadInput(f"{file.name!r}: no such file; correct the path, or export with the format JSON")
        return {"file": file}


class Telegram(Listing):
    """The connector for an export. Export again to the same place: only changed months are read."""

    kind: ClassVar[str] = "telegram"
    manifest: ClassVar[Manifest] = Manifest(
        "Telegram export",
        "an export of Telegram",
        "Telegram",
        place="Export: path of its folder, or of the file result.json in it",
        example="~/Downloads/ChatExport/result.json",
        level="silver",
        exempt={"moves": "a month of a chat is known by its name"},
    )
    settings: ClassVar[type[SourceSettings]] = TelegramSettings
    policy: ClassVar[Policy] = Policy(limits=Limits(memory_mb=4_096))
    """An export of 190 MB takes 1.2 GB to read."""

    def entries(self) -> Iterator[Entry]:
        file: Path = self.configured.file
        try:
            export = file.read_bytes()
        except OSError:
            raise SourceUnavailable(f"{file.name!r}: cannot be read; mount its disk, or move it back") from None
        yield from self.parse(months, export)


def months(export: bytes) -> list[Entry]:
    """Return the messages of an export (core.telegram.org/import-export), by conversation and month. Raises ParseError."""
    try:
        content = read_json(export)
        chats = content["chats"]["list"] if "chats" in content else [content]
        return [month for chat in chats for month in _months(chat)]
    except (AttributeError, KeyError, OSError, OverflowError, TypeError, ValueError):
        raise ParseError("no export of Telegram; export again, with the format JSON") from None


def _months(chat: Mapping[str, Any]) -> Iterator[Entry]:
    by_month: defaultdict[str, list[tuple[datetime, str]]] = defaultdict(list)
    for message in chat["messages"]:
        if message["type"] == "message":
            sent = _sent(message)
            by_month[f"{sent:%Y-%m}"].append((sent, f"{sent:%Y-%m-%d %H:%M} {_line(message)}"))
    chat_name = " ".join((chat.get("name") or chat["type"].replace("_", " ")).split())
    for month, messages in by_month.items():
        text = "\n".join([*(line for _, line in messages), ""])
        last = max(sent for sent, _ in messages)
        name, title = f"{chat_name} ({chat['id']})/{month}.txt", f"{chat_name}, {month}"
        yield Entry(name, text.encode(), title=title, modified=last)


def _sent(message: Mapping[str, Any]) -> datetime:
    if "date_unixtime" in message:
        return datetime.fromtimestamp(int(message["date_unixtime"]), UTC)
    return datetime.fromisoformat(message["date"]).replace(tzinfo=UTC)  # of old versions: local time


def _line(message: Mapping[str, Any]) -> str:
    parts = [message["text"]] if isinstance(message["text"], str) else message["text"]
    texts = ["".join(part if isinstance(part, str) else _part(part) for part in parts)]
    if "forwarded_from" in message:
        texts.insert(0, f"[from {message['forwarded_from']}]")
    if medium := message.get("media_type") or next((name for name in ("photo", "file") if name in message), None):
        name = message.get("file_name") or message.get("sticker_emoji") or ""
        texts.append(f"[{' '.join([*medium.split('_'), name]).rstrip()}]")
    return f"{message.get('from') or 'Deleted Account'}: {' '.join(filter(None, texts))}"


def _part(part: Mapping[str, Any]) -> str:
    return f"{part['text']} ({part['href']})" if part.get("href") else str(part["text"])
