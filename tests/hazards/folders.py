"""Mishaps of a folder of notes: changes by editors, disks and users between two syncs."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from pathlib import Path

from tests.hazards.model import Mishap, Truth

_NAMES = ("bees.md", "Harbour/pier.md", "Harbour/Boats/ketch.md", "lantern.md", "tides.md", "weir.md")
_MANY = 40


def write(folder: Path, name: str, text: str) -> Path:
    """Write a note below the folder."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def note(name: str, version: int = 1) -> str:
    """Return a text that is unique to this note and version."""
    word = "".join(letter for letter in name.lower() if letter.isalpha())
    return f"# {name}\n\nThe {word} of edition{version} stands alone in marker{word}{version}.\n"


def few(folder: Path) -> None:
    """Create six notes in three folders."""
    for name in _NAMES:
        write(folder, name, note(name))


def many(folder: Path) -> None:
    """Create forty notes in one folder, in addition to the six."""
    few(folder)
    for number in range(_MANY):
        write(folder, f"Log/day {number}.md", note(f"day{number}x"))


def on_disk(folder: Path) -> Truth:
    """Return every note on disk with its text."""
    return _disk(folder, frozenset())


def disk_and(expected: Truth) -> Callable[[Path], Truth]:
    """Return the notes on disk, updated with these entries."""
    return lambda folder: {**_disk(folder, expected.keys()), **expected}


def _disk(folder: Path, but: Collection[str]) -> Truth:
    notes = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*.md")}
    return {
        name: file.read_text(encoding="utf-8").strip()
        for name, file in notes.items()
        if name not in but and file.is_file() and not file.is_symlink()
    }


def as_before(make: Callable[[Path], None]) -> Callable[[Path], Truth]:
    """Expect everything that existed before: no deletion is allowed."""

    def truth(folder: Path) -> Truth:
        place = folder.with_name(folder.name + "-as-before")
        shutil.rmtree(place, ignore_errors=True)
        make(place)
        try:
            return on_disk(place)
        finally:
            shutil.rmtree(place)

    return truth


def keeping_times(file: Path, text: str) -> None:
    """Change a file without changing its size and modification time."""
    times = file.stat()
    assert len(text.encode()) == times.st_size
    file.write_text(text, encoding="utf-8")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def edit(folder: Path) -> None:
    write(folder, "bees.md", note("bees.md", 2))


def edit_with_size_and_time_kept(folder: Path) -> None:
    keeping_times(folder / "bees.md", note("bees.md", 2))


def atomic_save(folder: Path) -> None:
    beside = write(folder, ".bees.md.tmp", note("bees.md", 2))
    beside.replace(folder / "bees.md")


def save_with_a_backup(folder: Path) -> None:
    (folder / "bees.md").rename(folder / "bees.md~")
    write(folder, "bees.md", note("bees.md", 2))
    (folder / "bees.md~").unlink()


def rename(folder: Path) -> None:
    (folder / "bees.md").rename(folder / "hives.md")


def rename_by_case(folder: Path) -> None:
    (folder / "bees.md").rename(folder / "Bees.md")


def rename_and_edit(folder: Path) -> None:
    rename(folder)
    write(folder, "hives.md", note("bees.md", 2))


def move_a_folder(folder: Path) -> None:
    (folder / "Harbour").rename(folder / "Port")


def nest_a_folder(folder: Path) -> None:
    (folder / "Old").mkdir()
    (folder / "Harbour").rename(folder / "Old" / "Harbour")


def swap(folder: Path) -> None:
    (folder / "bees.md").rename(folder / "third")
    (folder / "tides.md").rename(folder / "bees.md")
    (folder / "third").rename(folder / "tides.md")


def shift(folder: Path) -> None:
    """Rename each note to the name of the next; the last note disappears."""
    names = ("bees.md", "lantern.md", "tides.md", "weir.md")
    (folder / names[-1]).unlink()
    for old, new in reversed(list(pairwise(names))):
        (folder / old).rename(folder / new)


def delete(folder: Path) -> None:
    (folder / "bees.md").unlink()


def delete_and_bring_back(folder: Path) -> None:
    text = (folder / "bees.md").read_text()
    delete(folder)
    write(folder, "bees.md", text)


def delete_a_twin(folder: Path) -> None:
    (folder / "twin.md").unlink()


def with_a_twin(folder: Path) -> None:
    few(folder)
    shutil.copyfile(folder / "bees.md", folder / "twin.md")


def edit_a_twin(folder: Path) -> None:
    write(folder, "twin.md", note("twin.md", 2))


def empty_the_folder(folder: Path) -> None:
    for child in folder.iterdir():
        if child.name != ".obsidian":
            shutil.rmtree(child) if child.is_dir() else child.unlink()


def lose_the_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def replace_the_folder(folder: Path) -> None:
    """Replace the folder by an empty one with the same name, as an unmounted disk does."""
    shutil.rmtree(folder)
    folder.mkdir()


def delete_most(folder: Path) -> None:
    for number in range(_MANY - 5):
        (folder / "Log" / f"day {number}.md").unlink()


def rename_all(folder: Path) -> None:
    for number in range(_MANY):
        (folder / "Log" / f"day {number}.md").rename(folder / "Log" / f"{number}. day.md")


def add_an_old_file(folder: Path) -> None:
    os.utime(write(folder, "old.md", note("old.md")), (0, 0))


def add_a_file_from_the_future(folder: Path) -> None:
    os.utime(write(folder, "future.md", note("future.md")), (4_000_000_000, 4_000_000_000))


def add_odd_names(folder: Path) -> None:
    for name in (
        "e\u0301tude.md",
        "\u00e9lan.md",
        "多摩川.md",
        "a b  c.md",
        "100%.md",
        "quo'te\".md",
        "line\nbreak.md",
        "-rf.md",
    ):
        write(folder, name, note(name))


def add_a_name_without_encoding(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.md")).write_text(note("caf"))


def add_latin_1(folder: Path) -> None:
    (folder / "latin.md").write_bytes(
        "# Café\n\nDer Föhn weht über die Höhe, und markerlatin1 steht allein.\n".encode("latin-1")
    )


def add_nothing_at_all(folder: Path) -> None:
    write(folder, "empty.md", "")


def add_bad_frontmatter(folder: Path) -> None:
    write(folder, "yaml.md", "---\ntitle: [unclosed\n  : : {{date}}\n---\n\n" + note("yaml.md"))


def add_nul_bytes(folder: Path) -> None:
    write(folder, "nul.md", "# Nul\n\nBefore \x00 after, and markernul stands alone.\n")


def add_deep_nesting(folder: Path) -> None:
    write(folder, "deep.md", "> " * 10_000 + "markerdeep\n\n" + "[" * 10_000 + "\n")


def add_a_long_line(folder: Path) -> None:
    write(folder, "long.md", "# Long\n\n" + "abcdefghi " * 500_000 + " markerlong")


def add_a_corrupt_pdf(folder: Path) -> None:
    (folder / "corrupt.pdf").write_bytes(b"%PDF-1.7\n" + os.urandom(4_000))


def add_a_bomb(folder: Path) -> None:
    with zipfile.ZipFile(folder / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("[Content_Types].xml", "<Types/>")
        with bomb.open("word/document.xml", "w") as part:
            for _ in range(400):
                part.write(b"<w:t>" + b" " * 1_000_000)


def add_a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe.md")
    edit(folder)


def add_a_loop(folder: Path) -> None:
    (folder / "Harbour" / "again").symlink_to(folder)
    edit(folder)


def add_a_way_out(folder: Path) -> None:
    outside = folder.with_name(folder.name + "-outside")
    write(outside, "secret.md", note("secret.md"))
    (folder / "secret.md").symlink_to(outside / "secret.md")
    (folder / "Out").symlink_to(outside)
    edit(folder)


def turn_a_file_into_a_folder(folder: Path) -> None:
    (folder / "bees.md").unlink()
    write(folder, "bees.md/inside.md", note("inside.md"))


def turn_a_folder_into_a_file(folder: Path) -> None:
    shutil.rmtree(folder / "Harbour" / "Boats")
    (folder / "Harbour" / "Boats").write_bytes(bytes(range(256)))


def truncate(folder: Path) -> None:
    write(folder, "bees.md", "# Bees\n")


def add_a_sparse_giant(folder: Path) -> None:
    with (folder / "giant.md").open("wb") as file:
        file.truncate(300 * 1024 * 1024)


def copy_the_tree(folder: Path) -> None:
    """Copy the tree as a restore from a backup does: the same paths and times, other inodes."""
    beside = folder.with_name(folder.name + "-restored")
    shutil.copytree(folder, beside)
    shutil.rmtree(folder)
    beside.rename(folder)


def nothing(_folder: Path) -> None:
    """Make no change."""


def mishaps() -> Iterator[Mishap]:
    """Return all mishaps and their expected outcomes."""
    disk, keep = on_disk, as_before
    yield Mishap("no change", "no work", few, nothing, disk)
    yield Mishap("an edit", "the new text", few, edit, disk)
    yield Mishap("an edit that keeps size and time", "the new text", few, edit_with_size_and_time_kept, disk)
    yield Mishap("a save by rename", "the new text", few, atomic_save, disk)
    yield Mishap("a save with a backup", "the new text", few, save_with_a_backup, disk)
    yield Mishap("a file is cut short", "the new text", few, truncate, disk)
    yield Mishap("a rename", "under the new name only", few, rename, disk)
    yield Mishap("a rename by case", "under the new name only", few, rename_by_case, disk)
    yield Mishap("a rename with an edit", "under the new name only", few, rename_and_edit, disk)
    yield Mishap("a folder is renamed", "under the new names only", few, move_a_folder, disk)
    yield Mishap("a folder is moved into another", "under the new names only", few, nest_a_folder, disk)
    yield Mishap("two names are swapped", "each under its new name", few, swap, disk)
    yield Mishap("four names are shifted by one", "each under its new name", few, shift, disk)
    yield Mishap("forty files are renamed", "under the new names only", many, rename_all, disk)
    yield Mishap("a delete", "removed", few, delete, disk)
    yield Mishap("a delete, and the same file again", "found once", few, delete_and_bring_back, disk)
    yield Mishap("one of two equal files is deleted", "the other stays", with_a_twin, delete_a_twin, disk)
    yield Mishap("one of two equal files is edited", "each has its own text", with_a_twin, edit_a_twin, disk)
    yield Mishap("a folder is emptied", "no deletion", many, empty_the_folder, keep(many), may_refuse=True)
    yield Mishap("a folder is missing", "no deletion", few, lose_the_folder, keep(few), may_refuse=True)
    yield Mishap("a disk is not mounted", "no deletion", few, replace_the_folder, keep(few), may_refuse=True)
    yield Mishap(
        "most files are deleted", "deletions held for a decision", many, delete_most, keep(many), may_refuse=True
    )
    yield Mishap("a tree is restored from a backup", "no duplicates", few, copy_the_tree, disk)
    yield Mishap("a new file with an old time", "found", few, add_an_old_file, disk)
    yield Mishap("a new file from the future", "found", few, add_a_file_from_the_future, disk)
    yield Mishap("odd names", "found", few, add_odd_names, disk)
    yield Mishap("a name that is not UTF-8", "found", few, add_a_name_without_encoding, disk)
    latin = disk_and({"latin.md": "markerlatin1 steht allein"})
    yield Mishap("a text in Latin-1", "the text is found", few, add_latin_1, latin)
    yield Mishap("an empty file", "stored or reported", few, add_nothing_at_all, disk_and({"empty.md": None}))
    yaml = disk_and({"yaml.md": note("yaml.md").strip()})
    yield Mishap("broken frontmatter", "the text is found", few, add_bad_frontmatter, yaml)
    yield Mishap("NUL bytes", "stored or reported", few, add_nul_bytes, disk_and({"nul.md": None}))
    yield Mishap("ten thousand levels", "the text is found", few, add_deep_nesting, disk_and({"deep.md": "markerdeep"}))
    yield Mishap("a line of 5 MB", "the text is found", few, add_a_long_line, disk_and({"long.md": "markerlong"}))
    named = "reported; the others are found"
    yield Mishap("a corrupt PDF", named, few, add_a_corrupt_pdf, disk_and({"corrupt.pdf": None}))
    yield Mishap("a zip bomb", named, few, add_a_bomb, disk_and({"bomb.docx": None}))
    yield Mishap("a sparse file of 300 MB", named, few, add_a_sparse_giant, disk_and({"giant.md": None}))
    yield Mishap("a pipe among the files", "the sync finishes", few, add_a_pipe, disk)
    yield Mishap("a link to the folder itself", "each file once", few, add_a_loop, disk)
    yield Mishap("a link out of the folder", "no file from outside", few, add_a_way_out, disk)
    yield Mishap("a file becomes a folder", "the files inside are found", few, turn_a_file_into_a_folder, disk)
    yield Mishap("a folder becomes a file", "its notes are removed", few, turn_a_folder_into_a_file, disk)
