"""The ways in which editors save a note, which differ in their file system events."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

Save = Callable[[Path, str], None]


def in_place(note: Path, text: str) -> None:
    """Save like VS Code: truncate the file and write it."""
    with note.open("w", encoding="utf-8") as file:
        file.write(text)


def by_backup(note: Path, text: str) -> None:
    """Save like vim: rename the old file to a backup, write a new file, and delete the backup."""
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
    """Save like Obsidian and many other editors: write a hidden file and rename it over the old one."""
    draft = note.with_name(f".{note.name}.tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(note)


EDITORS: Mapping[str, Save] = {"VS Code": in_place, "vim": by_backup, "Obsidian": by_rename}
