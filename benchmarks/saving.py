"""How editors save a note: each leaves other traces in the folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

Save = Callable[[Path, str], None]


def in_place(note: Path, text: str) -> None:
    """As VS Code: the file is emptied and written."""
    with note.open("w", encoding="utf-8") as file:
        file.write(text)


def by_backup(note: Path, text: str) -> None:
    """As vim: the old file becomes a backup, a new one is written in its place, and the backup goes."""
    probe, backup = note.with_name("4913"), note.with_name(f"{note.name}~")
    probe.touch()
    probe.unlink()
    if note.exists():
        note.rename(backup)
    with note.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    backup.unlink(missing_ok=True)


def by_rename(note: Path, text: str) -> None:
    """As Obsidian and many others: a hidden file is written and renamed over the old one."""
    draft = note.with_name(f".{note.name}.tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(note)


EDITORS: Mapping[str, Save] = {"VS Code": in_place, "vim": by_backup, "Obsidian": by_rename}
