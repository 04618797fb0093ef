"""The data of a reading page, and the files that the web process may serve."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from catchment.content.extract import extract
from catchment.errors import NotFound
from catchment.model import Document, Priority
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership
from catchment.runtime.server_report import ServerReport
from catchment.settings import SourceSettings
from catchment.views import served_files
from catchment.views.reading import FileKind, ReadingView, TextKind, reading
from catchment.views.served_files import ServedFile, served_file
from connectors.obsidian import ObsidianSettings
from tests.ledger.test_messages import arrive, eml, quoted
from tests.ledger.world import World, delivered, note

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
PDF = b"%PDF-1.7 words"


def put(world: World, notes: Mapping[str, str], metadata: Mapping[str, object] | None = None) -> None:
    """Bring notes, by locator, into the library with their links."""
    world.see(*map(note, notes))
    batch = world.claim()
    outcomes = []
    for job in batch.jobs:
        text = notes[job.item.locator]
        found = extract(Document(text, "text/markdown"))
        title = job.item.locator.rpartition("/")[2].removesuffix(".md")
        outcome = delivered(job.id, text, title=title, links=found.links, entities=found.entities, metadata=metadata)
        outcomes.append(replace(outcome, content_hash=f"{job.item.locator}{text}"))
    world.ledger.queue.deliver(batch.token, outcomes)


def read(world: World, locator: str) -> ReadingView:
    number = next(row.document for row in world.ledger.intake.find(locator) if row.document is not None)
    return reading(world.ledger, Home(Path("no home")), number)


@pytest.mark.databases
def test_links_lead_both_ways_to_the_nearest_file_of_the_name(world: World) -> None:
    put(
        world,
        {
            "A/Home.md": "[[Bees]] [[Bees#Hive|again]] ![[map.png]] [x](../B/Ä%20note.md) [[Nowhere]] <https://a.example>",
            "A/Bees.md": "humming",
            "B/Bees.md": "[[Home]] other bees",
            "B/Ä note.md": "[[A/Home]]",
            "map.png": "",
            "Home.md": "[[Bees]]",
        },
    )
    home = read(world, "A/Home.md")
    assert {target: named.locator for target, named in home.targets.items()} == {
        "Bees": "A/Bees.md",
        "map.png": "map.png",
        "../B/Ä note.md": "B/Ä note.md",
    }
    assert [named.locator for named in home.links_to] == ["A/Bees.md", "map.png", "B/Ä note.md"]
    assert [named.locator for named in home.linked_from] == ["B/Ä note.md"]
    assert not home.has_more_links
    assert [named.locator for named in read(world, "A/Bees.md").linked_from] == ["A/Home.md", "Home.md"]


def test_links_of_a_repository_are_relative_to_its_root(sqlite_world: World) -> None:
    files = {
        "me/bees:README.md": "[a](docs/a.md) ![p](docs/p.png)",
        "me/bees:docs/a.md": "[up](../README.md)",
        "me/bees:docs/p.png": "",
    }
    put(sqlite_world, files, {"url": "https://github.com/me/bees"})
    readme = read(sqlite_world, "me/bees:README.md")
    assert [named.locator for named in readme.links_to] == ["me/bees:docs/a.md", "me/bees:docs/p.png"]
    assert [named.locator for named in readme.linked_from] == ["me/bees:docs/a.md"]
    assert not readme.has_files


def test_backlinks_of_an_index_page_are_bounded(sqlite_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catchment.views.reading.MOST_BACKLINKS", 3)
    put(sqlite_world, {"Index.md": "all", **{f"n{number}.md": f"{number} [[Index]]" for number in range(6)}})
    index = read(sqlite_world, "Index.md")
    assert [named.locator for named in index.linked_from] == ["n0.md", "n1.md", "n2.md"]
    assert index.has_more_links


def test_conversation_has_the_text_of_messages_near_by(sqlite_world: World) -> None:
    messages = [
        (f"m{number}", eml(number, f"Text {number}\n\n{quoted('Before?')}", *range(1, number)[:1]))
        for number in range(1, 15)
    ]
    messages[1] = ("m2", eml(2, "With a file", 1, attached=["plan.csv"]))
    arrive(sqlite_world, *messages)
    first = read(sqlite_world, "m1")
    assert first.kind is TextKind.MAIL
    assert [one.message.item for one in first.conversation] == [locator for locator, _ in messages]
    assert [one.view is not None for one in first.conversation] == [True] * 11 + [False] * 3
    third, second = first.conversation[2].view, first.conversation[1].view
    assert third is not None and second is not None
    assert (third.senders, third.recipients) == (("Person 3 <p3@example.org>",), ("all@example.org",))
    assert [is_aside for _, is_aside in third.parts] == [False, True]
    assert [file.name for file in second.attached] == ["plan.csv"]


def test_copies_and_versions_of_a_note(sqlite_world: World) -> None:
    world = sqlite_world
    world.ingest(note("A.md", "v1"))
    world.ingest(note("A.md", "v2"), text="the same")
    other = world.ledger.sources.put("papers", "local_files", Priority.NORMAL)
    world.source, world.sync = other, world.begin(other)
    world.ingest(note("Copy.md"), text="the same")
    read_again = read(world, "A.md")
    assert [(copy.source, copy.item) for copy in read_again.copies] == [("papers", "Copy.md")]
    assert [one.what for one in read_again.history.versions] == ["added"], "both changes are of one sync"
    assert read_again.origin is not None and read_again.origin.item == "A.md"
    assert read_again.origin.because.startswith("in the library")


@pytest.mark.parametrize(
    ("name", "kind"), [("a.PNG", FileKind.PICTURE), ("b.pdf", FileKind.PDF), ("c.svg", None), ("d.md", None)]
)
def test_file_of_a_document_is_shown_if_browsers_can(sqlite_world: World, name: str, kind: FileKind | None) -> None:
    put(sqlite_world, {name: "x"})
    assert read(sqlite_world, name).file is kind


class Vault:
    """A folder, its library, and the files that the web process would serve of it."""

    def __init__(self, world: World, root: Path) -> None:
        self.world, self.root, self.home = world, root, Home(root.parent / "home").make()
        files = {"a/map.png": PNG, "report.pdf": PDF, "odd.png": b"<svg onload=alert(1)>", "words.md": b"words"}
        for name, data in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        embeds = "![[map.png]] ![r](report.pdf) ![[odd.png]] ![[words]] [[a/map.png|link]] ![[../secret.png]]"
        put(world, {"Note.md": embeds, **dict.fromkeys(files, "")})
        world.ledger.consents.give(world.source.id, {"everything"}, "me", None)

    def serve(self, locator: str, embed: str | None = None) -> ServedFile:
        number = read(self.world, locator).shown.document
        settings: dict[str, SourceSettings] = {"notes": ObsidianSettings(root=self.root)}
        return served_file(self.home, self.world.ledger, lambda: settings, number, embed)

    def refuses(self, locator: str, embed: str | None = None) -> bool:
        with pytest.raises(NotFound, match="has no such picture or PDF"):
            self.serve(locator, embed)
        return True


@pytest.fixture
def vault(sqlite_world: World, tmp_path: Path) -> Vault:
    return Vault(sqlite_world, tmp_path / "vault")


def test_own_and_embedded_pictures_and_pdf_are_served(vault: Vault) -> None:
    assert vault.serve("map.png") == ServedFile("map.png", "image/png", PNG)
    assert vault.serve("Note.md", "map.png").data == PNG
    assert vault.serve("Note.md", "report.pdf") == ServedFile("report.pdf", "application/pdf", PDF)


def test_other_types_are_not_served_whatever_their_name(vault: Vault) -> None:
    assert vault.refuses("Note.md") and vault.refuses("words.md")
    assert vault.refuses("odd.png") and vault.refuses("Note.md", "odd.png") and vault.refuses("Note.md", "words")


@pytest.mark.parametrize("embed", ["a/map.png", "../secret.png", "/etc/passwd", "", "odd.png/../a/map.png", "\x00"])
def test_name_that_is_no_embed_of_the_document_is_not_served(vault: Vault, embed: str) -> None:
    (vault.root.parent / "secret.png").write_bytes(PNG)
    assert vault.refuses("Note.md", embed)


def test_links_on_the_disk_are_not_followed(vault: Vault) -> None:
    outside = vault.root.parent / "outside"
    outside.mkdir()
    (outside / "map.png").write_bytes(PNG)
    (vault.root / "a/map.png").unlink()
    (vault.root / "a/map.png").symlink_to(outside / "map.png")
    assert vault.refuses("map.png")
    (vault.root / "a/map.png").unlink()
    (vault.root / "a").rmdir()
    (vault.root / "a").symlink_to(outside)
    assert vault.refuses("map.png")


def test_missing_large_and_special_files_are_not_served(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    (vault.root / "report.pdf").unlink()
    assert vault.refuses("report.pdf")
    os.mkfifo(vault.root / "report.pdf")
    assert vault.refuses("report.pdf")
    monkeypatch.setattr(served_files, "MOST_BYTES", len(PNG) - 1)
    assert vault.refuses("map.png")


def test_host_that_has_the_file_is_named(vault: Vault) -> None:
    number = read(vault.world, "map.png").shown.document
    Membership("attic", "https://library.lan", "file:/login").record(vault.home)
    ServerReport(datetime.now(UTC), on={"notes": "barn"}).write(vault.home)
    with pytest.raises(NotFound, match="its file is on barn; open it there"):
        served_file(vault.home, vault.world.ledger, dict, number)


def test_source_without_consent_folder_or_entry_serves_nothing(vault: Vault) -> None:
    number = read(vault.world, "map.png").shown.document
    with pytest.raises(NotFound, match="has no such picture"):
        served_file(vault.home, vault.world.ledger, dict, number)
    vault.root.rename(vault.root.with_name("moved"))
    assert vault.refuses("map.png")
    vault.root.with_name("moved").rename(vault.root)
    vault.world.ledger.consents.withdraw(vault.world.source.id, {"everything"}, "me")
    assert vault.refuses("map.png")
