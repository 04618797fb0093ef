"""Files inside of files: each part is an item with a job of its own, and follows its container."""

from __future__ import annotations

import base64
import gzip
import io
import os
import random
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pypdfium2 import PdfDocument

from catchment.content.parts.archive_members import IS_DAMAGED
from catchment.errors import SkipReason
from catchment.model import PARTS, JobState
from catchment.search.related import relations
from catchment.search.results import Lanes
from catchment.search.search import search
from catchment.settings import Home, Limits, Policy
from catchment.views.reading import _linked_from, resolved
from catchment.views.served_files import own_file
from connectors.local_files import LocalFilesSettings
from tests.documents import document_named
from tests.engine.papers import Papers
from tests.hits import find_hits
from tests.normalize import samples

DATA = "__substg1.0_37010102"
LETTER = (
    b"From: ada@example.org\r\nTo: bob@example.org\r\nSubject: Minutes\r\nMessage-ID: <1@example.org>\r\n"
    b"Date: Tue, 3 Mar 2026 10:00:00 +0000\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n"
    b"--x\r\n\r\nThe minutes are attached.\r\n--x\r\nContent-Type: text/markdown; name=minutes.md\r\n"
    b"Content-Disposition: attachment; filename=minutes.md\r\n\r\n# Agreed\r\n--x--\r\n"
)


def zipped(files: Mapping[str, bytes | str]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return written.getvalue()


def tarred(files: Mapping[str, bytes], mode: str = "w:gz") -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return written.getvalue()


@pytest.fixture
def papers(home: Home, tmp_path: Path) -> Papers:
    folder = tmp_path / "folder"
    folder.mkdir()
    return Papers(home, folder)


def numbers(papers: Papers) -> dict[str, int]:
    return {named.locator: named.document for named in papers.ledger.library.names(papers.source.id)}


def pdf_with(minutes: bytes) -> bytes:
    written = io.BytesIO()
    with closing(PdfDocument.new()) as pdf:
        pdf.new_page(200, 200)
        pdf.new_attachment("minutes.md").set_data(minutes)
        pdf.save(written)
    return written.getvalue()


def inside(papers: Papers, holder: str) -> dict[str, str]:
    start = f"{holder}{PARTS}"
    return {name.removeprefix(start): text for name, text in papers.documents().items() if name.startswith(start)}


def test_parts_of_all_kinds_and_levels_are_documents(papers: Papers) -> None:
    mailbox = b"".join(
        b"From ada Tue Mar  3 10:00:00 2026\n" + LETTER.replace(b"\r\n", b"\n") + b"\n" for _ in range(2)
    )
    inner = tarred({"in/deep.md": b"# Deep\n"})
    (papers.folder / "a.zip").write_bytes(
        zipped({"notes/one.md": "# One\n", "t.tar.gz": inner, "m.mbox": mailbox, "l.eml": LETTER})
    )
    (papers.folder / "letter.eml").write_bytes(LETTER)
    papers.sync()
    found = papers.documents()
    assert set(found) == {
        "a.zip",
        "a.zip!/notes/one.md",
        "a.zip!/t.tar.gz",
        "a.zip!/t.tar.gz!/in/deep.md",
        "a.zip!/m.mbox",
        "a.zip!/m.mbox!/1@example.org.eml",
        "a.zip!/m.mbox!/1@example.org.eml!/minutes.md",
        "a.zip!/m.mbox!/1@example.org 94e69b95.eml",
        "a.zip!/m.mbox!/1@example.org 94e69b95.eml!/minutes.md",
        "a.zip!/l.eml",
        "a.zip!/l.eml!/minutes.md",
        "letter.eml",
        "letter.eml!/minutes.md",
    }
    assert found["a.zip!/t.tar.gz!/in/deep.md"] == "# Deep"
    assert papers.sync().get("succeeded", 0) == 0
    assert papers.ledger.check(deep=True) == []


def test_archive_without_a_known_ending_lists_its_files(papers: Papers) -> None:
    (papers.folder / "backup").write_bytes(zipped({"a/one.md": "1", "../two.md": "2", "a/": ""}))
    (papers.folder / "old.gz").write_bytes(gzip.compress(tarred({"old.md": b"3"}, "w")))
    (papers.folder / "list.gz").write_bytes(gzip.compress(message(1) + message(2)))
    (papers.folder / "b.tar").write_bytes(tarred({"in.tar.bz2": tarred({"deep.md": b"4"}, "w:bz2")}, "w"))
    papers.sync()
    assert papers.documents() == {
        "backup": "- a/one.md\n- two.md",
        "backup!/a/one.md": "1",
        "backup!/two.md": "2",
        "old.gz": "- old.md",
        "old.gz!/old.md": "3",
        "list.gz": "- 1@example.org.eml\n- 2@example.org.eml",
        "list.gz!/1@example.org.eml": "The level is 1.",
        "list.gz!/2@example.org.eml": "The level is 2.",
        "b.tar": "- in.tar.bz2",
        "b.tar!/in.tar.bz2": "- deep.md",
        "b.tar!/in.tar.bz2!/deep.md": "4",
    }


def test_changed_archive_reads_only_changed_parts(papers: Papers) -> None:
    (papers.folder / "a.zip").write_bytes(zipped({"one.md": "1", "two.md": "2", "three.md": "3"}))
    papers.sync()
    before = numbers(papers)
    (papers.folder / "a.zip").write_bytes(zipped({"one.md": "1", "two.md": "changed", "four.md": "4"}))
    assert papers.sync()["succeeded"] == 3
    assert papers.documents() == {
        "a.zip": "- one.md\n- two.md\n- four.md",
        "a.zip!/one.md": "1",
        "a.zip!/two.md": "changed",
        "a.zip!/four.md": "4",
    }
    assert {name: number for name, number in numbers(papers).items() if name in before} == {
        name: number for name, number in before.items() if name != "a.zip!/three.md"
    }
    assert papers.ledger.check(deep=True) == []


def test_parts_follow_their_archive(papers: Papers) -> None:
    archive = papers.folder / "a.zip"
    archive.write_bytes(zipped({f"{n}.md": f"text {n}" for n in range(30)}))
    papers.sync()
    before = numbers(papers)
    (papers.folder / "b").mkdir()
    archive.rename(papers.folder / "b" / "new.zip")
    assert papers.sync().get("succeeded", 0) == 0
    assert numbers(papers) == {name.replace("a.zip", "b/new.zip"): number for name, number in before.items()}
    (papers.folder / "b" / "new.zip").rename(papers.folder.parent / "away.zip")
    figures = papers.sync()
    assert (figures["deleted"], papers.documents()) == (1, {})
    (papers.folder.parent / "away.zip").rename(archive)
    papers.sync()
    assert numbers(papers) == before
    assert papers.ledger.check(deep=True) == []


def test_part_that_moves_between_a_folder_and_an_archive_keeps_its_document(papers: Papers) -> None:
    papers.write("note.md", "The same words")
    papers.sync()
    number = numbers(papers)["note.md"]
    (papers.folder / "note.md").unlink()
    (papers.folder / "a.zip").write_bytes(zipped({"note.md": "The same words"}))
    papers.sync()
    assert numbers(papers)["a.zip!/note.md"] == number
    (papers.folder / "a.zip").unlink()
    papers.write("note.md", "The same words")
    papers.sync()
    assert numbers(papers) == {"note.md": number}


def test_history_follows_a_file_into_archives_and_back(papers: Papers) -> None:
    note, first, second = papers.folder / "n.md", papers.folder / "a.zip", papers.folder / "b.zip"
    note.write_text("one")
    papers.sync()
    note.write_text("two")
    papers.sync()
    document = numbers(papers)["n.md"]
    for archive in (first, second):
        archive.write_bytes(zipped({"n.md": "two"}))
        note.unlink(missing_ok=True)
        first.unlink() if archive is second else None
        papers.sync()
    second.unlink()
    note.write_text("two")
    papers.sync()
    note.write_text("three")
    papers.sync()
    assert numbers(papers)["n.md"] == document
    row = papers.ledger.intake.of_document(document)
    assert row is not None
    versions = papers.ledger.versions.of(row.id)
    read = [(v.path, papers.ledger.versions.read(versions, v).content.text) for v in versions.all if v.is_there]
    assert read == [
        ("n.md", "one"),
        ("n.md", "two"),
        ("a.zip!/n.md", "two"),
        ("b.zip!/n.md", "two"),
        ("n.md", "two"),
        ("n.md", "three"),
    ]
    assert versions.is_complete


def test_many_vanished_parts_are_held_by_the_guard(papers: Papers) -> None:
    files = {f"{n}.md": f"text {n}" for n in range(30)}
    (papers.folder / "a.zip").write_bytes(zipped(files))
    papers.sync()
    (papers.folder / "a.zip").write_bytes(zipped({"0.md": "text 0"}))
    assert papers.sync()["held"] == 29
    assert len(papers.documents()) == 31
    held = [finding.item for finding in papers.prove().findings]
    assert (len(held), held[0]) == (29, "a.zip!/1.md")


def test_encrypted_damaged_and_large_parts_have_a_reason_of_their_own(papers: Papers) -> None:
    files = {
        "good.md": "good",
        "locked.md": "secret",
        "bad.md": "damaged words " * 9,
        "big.md": os.urandom(12_000).hex(),
    }
    data = bytearray(zipped(files))
    locked = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4)
    data[locked + 8] |= 1  # the flag of an encrypted file, in the second entry of the directory
    at = data.index(b"bad.md") + len(b"bad.md")
    data[at + 2] ^= 0xFF
    (papers.folder / "a.zip").write_bytes(bytes(data))
    papers.policy = Policy(limits=Limits(max_mb=0.02))
    papers.sync()
    assert set(papers.documents()) == {"a.zip", "a.zip!/good.md"}
    reasons = {entry.item: entry.message for entry in papers.ledger.quarantine.page("papers").rows}
    assert reasons == {
        "a.zip!/locked.md": "encrypted; unpack it with its password",
        "a.zip!/bad.md": "the archive is damaged or of an unknown kind; fetch or save it again",
    }
    shown = papers.ledger.library.document(numbers(papers)["a.zip"])
    assert {file.name: file.left_out for file in shown.attached} == {
        "good.md": None,
        "locked.md": "quarantined: encrypted; unpack it with its password",
        "bad.md": "quarantined: the archive is damaged or of an unknown kind; fetch or save it again",
        "big.md": "skipped: too large",
    }
    (skipped,) = papers.ledger.intake.find("big.md")
    assert (skipped.job_state, skipped.job_reason) == (JobState.SKIPPED, SkipReason.TOO_LARGE)


def test_plan_counts_an_archive_as_one(papers: Papers) -> None:
    archive = papers.folder / "a.zip"
    archive.write_bytes(zipped({"one.md": "1", "two.md": "2"}))
    assert [(step.item, step.why) for step in papers.plan().steps] == [("a.zip", "files inside: unknown until read")]
    papers.sync()
    os.utime(archive, (9, 9))
    assert [(step.item, step.why) for step in papers.plan().steps] == [("a.zip", "2 files inside until now")]
    papers.sync()
    archive.rename(papers.folder / "b.zip")
    assert [step.item for step in papers.plan().steps] == ["b.zip"]


def test_proof_of_a_source_with_archives_finds_nothing(papers: Papers) -> None:
    (papers.folder / "a.zip").write_bytes(zipped({"x/one.md": "1", "two.md": "2"}))
    papers.sync()
    proven = papers.prove(deep=True)
    assert (proven.findings, proven.texts) == ((), 3)


def test_container_shows_its_parts_and_a_part_its_container(papers: Papers) -> None:
    inner = zipped({"deep.md": "deep"})
    (papers.folder / "a.zip").write_bytes(zipped({"one.md": "1", "inner.zip": inner, "x.unknown": b"\0\1\2"}))
    (papers.folder / "letter.eml").write_bytes(LETTER)
    papers.sync()
    known = numbers(papers)
    shown = papers.ledger.library.document(known["a.zip"])
    assert [(file.name, file.document) for file in shown.attached] == [
        ("one.md", known["a.zip!/one.md"]),
        ("inner.zip", known["a.zip!/inner.zip"]),
        ("x.unknown", None),
    ]
    assert [file.name for file in papers.ledger.library.document(known["a.zip!/inner.zip"]).attached] == ["deep.md"]
    deep = papers.ledger.library.document(known["a.zip!/inner.zip!/deep.md"])
    assert (deep.carrier, deep.file) == (known["a.zip!/inner.zip"], "deep.md in inner")
    minutes = papers.ledger.library.document(known["letter.eml!/minutes.md"])
    assert (minutes.carrier, minutes.file) == (known["letter.eml"], "minutes.md in Minutes")
    (attached,) = papers.ledger.library.document(known["letter.eml"]).attached
    assert (attached.locator("letter.eml"), attached.document) == ("letter.eml!/minutes.md", minutes.document)


def test_a_message_in_a_mailbox_a_file_and_an_archive_is_one_hit(papers: Papers) -> None:
    unix = LETTER.replace(b"\r\n", b"\n")
    (papers.folder / "m.mbox").write_bytes(
        b"From ada Tue Mar  3 10:00:00 2026\nStatus: RO\nX-Gmail-Labels: Work\n" + unix
    )
    (papers.folder / "a.zip").write_bytes(zipped({"l.eml": b"X-Mozilla-Status: 0001\n" + unix}))
    (papers.folder / "letter.eml").write_bytes(LETTER)
    papers.sync()
    (hit,) = find_hits(papers.ledger, "minutes attached")
    assert sorted(item for _, item in hit.places) == ["a.zip!/l.eml", "letter.eml", "m.mbox!/1@example.org.eml"]


def test_links_lead_into_archives_and_between_their_files(papers: Papers) -> None:
    inside = {"n/1.md": "[next](2.md) [[top]]", "n/2.md": "two", "top.md": "[[2]] [r](/n/2.md)"}
    (papers.folder / "a.zip").write_bytes(zipped(inside))
    (papers.folder / "2.md").write_text("another two")
    (papers.folder / "out.md").write_text("[[a.zip!/n/2.md]] [top](a.zip!/top.md) [[top]] [[1]]")
    papers.sync()
    known = numbers(papers)

    def related(name: str) -> set[tuple[str, str]]:
        return {
            (row.relation, row.item) for row in relations(papers.ledger, papers.ledger.library.document(known[name]))
        }

    (papers.folder / "x").mkdir()
    (papers.folder / "x/b.zip").write_bytes(zipped({"s/1.md": "[q](../in.zip!/q.md)", "in.zip": zipped({"q.md": "q"})}))
    (papers.folder / "x/l.md").write_text("[a](b.zip!/s/1.md) [[b.zip!/in.zip!/q]] ![[/x/b.zip!/s/1.md]]")
    papers.sync()
    known = numbers(papers)
    assert related("x/l.md") == {("links to", "x/b.zip!/s/1.md"), ("links to", "x/b.zip!/in.zip!/q.md")}
    assert ("links to", "x/b.zip!/in.zip!/q.md") in related("x/b.zip!/s/1.md")
    shown = papers.ledger.library.document(known["x/l.md"])
    assert len(resolved(papers.ledger, shown, ["b.zip!/s/1.md", "b.zip!/in.zip!/q"])) == 2
    back = _linked_from(papers.ledger, papers.ledger.library.document(known["x/b.zip!/in.zip!/q.md"]))
    assert {named.locator for named in back} == {"x/l.md", "x/b.zip!/s/1.md"}
    zip_, first, second, top = "a.zip", "a.zip!/n/1.md", "a.zip!/n/2.md", "a.zip!/top.md"
    # By name alone, a link does not lead into an archive.
    assert related("out.md") == {("links to", second), ("links to", top)}
    assert related(first) == {("links to", second), ("links to", top), ("attached to", zip_)}
    assert {item for relation, item in related(second) if relation == "linked from"} == {"out.md", first, top}
    assert related("2.md") == set()
    shown = papers.ledger.library.document(known[first])
    assert {to.locator for to in resolved(papers.ledger, shown, ["2.md", "top"]).values()} == {second, top}


def test_archive_under_another_name_is_read_and_followed(papers: Papers) -> None:
    mailbox = b"".join(
        b"From a@b Tue Mar  3 10:00:00 2026\nMessage-ID: <%d@x>\n\ntext %d\n\n" % (n, n) for n in range(3)
    )
    packed, pdf = zipped({"1.md": "one", "2.md": "two"}), pdf_with(random.Random(1).randbytes(60_000).hex().encode())
    for name, data in {"a.zip": packed, "v.mbox": mailbox, "p.pdf": pdf}.items():
        (papers.folder / name).write_bytes(data)
    papers.sync()
    for name, data in {
        "a.zip (1)": packed,
        "v2": mailbox,
        "copy.pdf": pdf,
        "b.7z": b"7z\xbc\xaf'\x1c\0\4 broken",
    }.items():
        (papers.folder / name).write_bytes(data)
    papers.sync()
    for holder in ("a.zip", "v.mbox", "p.pdf"):
        assert len(inside(papers, holder)) == {"a.zip": 2, "v.mbox": 3, "p.pdf": 1}[holder]
    assert [len(inside(papers, name)) for name in ("a.zip (1)", "v2", "copy.pdf")] == [2, 3, 1]
    (papers.folder / "a.zip").rename(papers.folder / "a.bak")
    papers.sync()
    assert inside(papers, "a.bak") == {"1.md": "one", "2.md": "two"}
    (papers.folder / "a.bak").write_bytes(zipped({"1.md": "other"}))
    papers.sync()
    assert inside(papers, "a.bak") == {"1.md": "other"}
    (papers.folder / "a.bak").write_bytes(b"\0\1\2" * 400)
    papers.sync()
    assert inside(papers, "a.bak") == {}


def test_content_tells_the_kind_of_archives_at_all_levels(papers: Papers) -> None:
    packed, tape = zipped({"1.md": "zip"}), tarred({"2.md": b"tar"}, "w")
    head = "From a@b Tue Mar  3 10:00:00 2026\nSubject: {0}\n\nmail {0}\n\n"
    mailbox = "".join(map(head.format, range(3)))
    (papers.folder / "zip.eml").write_bytes(packed)
    (papers.folder / "zip.tar").write_bytes(packed)
    (papers.folder / "tar.zip").write_bytes(tape)
    (papers.folder / "box.eml").write_text(mailbox)
    (papers.folder / "one.eml").write_text(head.format("alone"))
    (papers.folder / "out.zip").write_bytes(zipped({"in.zip": tape, "in.tar": packed}))
    papers.sync()
    assert papers.ledger.quarantine.page("papers").rows == ()
    assert [*inside(papers, "zip.eml")] == [*inside(papers, "zip.tar")] == ["1.md"]
    assert inside(papers, "tar.zip") == {"2.md": "tar"}
    assert [len(inside(papers, name)) for name in ("box.eml", "one.eml")] == [3, 0]
    assert {"in.zip!/2.md", "in.tar!/1.md"} <= inside(papers, "out.zip").keys()
    assert papers.prove(deep=True).findings == ()


def test_files_that_the_outer_archive_cannot_list_are_named_in_a_warning(papers: Papers) -> None:
    hidden = {
        "plan.pdf.gz": gzip.compress(pdf_with(b"# A")),
        "noend": zipped({"1.md": "one"}),
        "plan.pdf": pdf_with(b"# B"),
    }
    (papers.folder / "a.zip").write_bytes(zipped(hidden))
    papers.sync()
    known = numbers(papers)
    warned = {name: papers.ledger.library.document(known[f"a.zip!/{name}"]).content.warnings for name in hidden}
    warning = "files inside not read: 1; give it the ending of its type"
    assert {name: warning in warnings for name, warnings in warned.items()} == {
        "plan.pdf.gz": True, "noend": True, "plan.pdf": False
    }  # fmt: skip


def test_hits_in_the_same_archive_are_one_row(papers: Papers) -> None:
    inner = zipped({"4.md": "girder four"})
    (papers.folder / "a.zip").write_bytes(zipped({"1.md": "girder", "2.md": "girder two", "inner.zip": inner}))
    head = b"From ada Tue Mar  3 10:00:00 2026\n"
    (papers.folder / "m.mbox").write_bytes(head + b"Subject: girder\n\n1\n\n" + head + b"Subject: girder\n\n2\n")
    (papers.folder / "3.md").write_text("girder three")
    papers.sync()

    def rows(query: str) -> list[list[str]]:
        results = search(papers.ledger, query, datetime.now(UTC), lanes=Lanes.WORDS)
        return sorted(sorted(hit.item for hit in (first, *others)) for first, others in results.folded)

    archive, nested = ["a.zip!/1.md", "a.zip!/2.md"], ["a.zip!/inner.zip!/4.md"]
    assert rows("girder")[:3] == [["3.md"], archive, nested]
    assert [len(row) for row in rows("girder")[3:]] == [1, 1]
    assert rows('girder in:"a.zip!"') == [["a.zip!/1.md"], ["a.zip!/2.md"], nested]
    assert rows('girder in:"a.zip!/inner.zip!"') == [nested]
    assert papers.ledger.check(deep=True) == []


def test_part_is_served_from_its_archive(papers: Papers) -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(40)
    (papers.folder / "a.zip").write_bytes(zipped({"t.zip": zipped({"notes/pic.md": "words"}), "pic.png": png}))
    papers.sync()
    settings = {"papers": LocalFilesSettings(root=papers.folder)}
    shown = papers.ledger.library.document(numbers(papers)["a.zip!/t.zip!/notes/pic.md"])
    assert own_file(papers.home, papers.ledger, lambda: settings, shown, 1_000) == ("pic.md", b"words")


def test_files_embedded_in_documents_are_parts(papers: Papers) -> None:
    packaged = struct.pack("<IH", 0, 2) + b"memo.txt\0C:\\memo.txt\0" + bytes(8) + b"C:\\t.txt\0"
    ole = samples.compound({"\x01Ole10Native": packaged + struct.pack("<I", 9) + b"The memo."})
    related = (("package", "../embeddings/levels.docx"), ("oleObject", "../embeddings/o.bin"))
    extra = {"ppt/embeddings/levels.docx": samples.docx(), "ppt/embeddings/o.bin": ole}
    (papers.folder / "deck.pptx").write_bytes(samples.pptx(related=related, extra=extra))
    (papers.folder / "plan.pdf").write_bytes(pdf_with(b"# Agreed"))
    (papers.folder / "a.zip").write_bytes(zipped({"deck.pptx": (papers.folder / "deck.pptx").read_bytes()}))
    papers.sync()
    found = papers.documents()
    assert {name for name in found if "!/" in name} == {
        "a.zip!/deck.pptx",
        "a.zip!/deck.pptx!/levels.docx",
        "a.zip!/deck.pptx!/memo.txt",
        "deck.pptx!/levels.docx",
        "deck.pptx!/memo.txt",
        "plan.pdf!/minutes.md",
    }
    assert (found["deck.pptx!/memo.txt"], found["plan.pdf!/minutes.md"]) == ("The memo.", "# Agreed")
    warnings = [document_named(papers.ledger, name).content.warnings for name in ("deck.pptx", "plan.pdf")]
    assert not [each for each in warnings if "not read" in str(each)]
    shown = papers.ledger.library.document(numbers(papers)["plan.pdf!/minutes.md"])
    settings = {"papers": LocalFilesSettings(root=papers.folder)}
    assert own_file(papers.home, papers.ledger, lambda: settings, shown, 1_000) == ("minutes.md", b"# Agreed")
    (papers.folder / "deck.pptx").write_bytes(samples.pptx())
    papers.sync()
    assert {name for name in papers.documents() if name.startswith("deck.pptx!/")} == set()


def test_mails_of_a_folder_without_an_ending_have_their_attachments(papers: Papers) -> None:
    (papers.folder / "cur").mkdir()
    (papers.folder / "cur" / "1767.M5P2.host:2,S").write_bytes(LETTER)
    papers.sync()
    assert "cur/1767.M5P2.host:2,S!/minutes.md" in papers.documents()


def message(number: int) -> bytes:
    head = f"From: ada@example.org\nSubject: Level {number}\nMessage-ID: <{number}@example.org>\n"
    return f"From ada Tue Mar  3 10:0{number}:00 2026\n{head}\nThe level is {number}.\n\n".encode()


def test_message_that_is_removed_from_a_mailbox_leaves_the_others_alone(papers: Papers) -> None:
    mailbox = papers.folder / "mails.mbox"
    mailbox.write_bytes(b"".join(message(number) for number in range(6)))
    papers.sync()
    before = numbers(papers)
    mailbox.write_bytes(b"".join(message(number) for number in range(6) if number))
    figures = papers.sync()
    del before["mails.mbox!/0@example.org.eml"]
    assert (numbers(papers), figures["succeeded"], figures["deleted"]) == (before, 1, 1)


def test_marks_of_a_mail_program_leave_messages_where_they_are(papers: Papers) -> None:
    file, text = papers.folder / "m.mbox", "From a@b Tue Mar  3 10:00:00 2026\nSubject: {0}\n{1}\ntext {0}\n\n"
    file.write_text("".join(text.format(number, "") for number in range(3)))
    papers.sync()
    known = numbers(papers)
    file.write_text("".join(text.format(number, "Status: RO\nX-Keys: a\n b\n") for number in range(3)))
    papers.sync()
    assert numbers(papers) == known


def test_messages_with_one_message_id_keep_their_documents(papers: Papers) -> None:
    messages = [
        b"From a@b Tue Mar  3 10:00:00 2026\nMessage-ID: <same@x>\nSubject: %d\n\n%d\n\n" % (n, n) for n in range(5)
    ]
    file = papers.folder / "m.mbox"
    file.write_bytes(b"".join(messages) + messages[4])
    papers.sync()
    texts = {named.document: named.title for named in papers.ledger.library.names(papers.source.id)}
    assert len(texts) == 7
    file.write_bytes(b"".join(messages[:2] + messages[3:]))
    papers.sync()
    left = {named.document: named.title for named in papers.ledger.library.names(papers.source.id)}
    assert left.items() <= texts.items()
    assert sorted(left.values()) == ["0", "1", "3", "4", "m"]


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("damage", ["header", "cut", "zeros"])
def test_tar_with_a_damaged_header_is_quarantined(papers: Papers, damage: str, mode: str) -> None:
    plain = tarred({f"{n}.md": b"%d" % n for n in range(6)}, "w")
    bad = {
        "header": plain[:3200] + b"garbage" + plain[3207:],
        "cut": plain[:3300],
        "zeros": plain[:3072] + bytes(512) + plain[3584:],
    }[damage]
    (papers.folder / f"a.tar{mode[2:] and '.gz'}").write_bytes(gzip.compress(bad) if mode[2:] else bad)
    papers.sync()
    assert [entry.message for entry in papers.ledger.quarantine.page("papers").rows] == [IS_DAMAGED]


def test_archives_that_exchange_their_names_keep_their_parts(papers: Papers) -> None:
    first, second = papers.folder / "1.zip", papers.folder / "2.zip"
    first.write_bytes(zipped({"same.md": "of the first", "one.md": "1"}))
    second.write_bytes(zipped({"same.md": "of the second", "two.md": "2"}))
    papers.sync()
    before = numbers(papers)
    first.rename(papers.folder / "x")
    second.rename(first)
    (papers.folder / "x").rename(second)
    papers.sync()
    after = numbers(papers)
    assert after["1.zip!/same.md"] == before["2.zip!/same.md"] and after["2.zip!/same.md"] == before["1.zip!/same.md"]
    texts = papers.documents()
    assert (texts["1.zip!/same.md"], texts["2.zip!/same.md"]) == ("of the second", "of the first")
    assert {"1.zip!/two.md", "2.zip!/one.md"} < after.keys() and len(after) == 6
    assert papers.prove(deep=True).findings == ()


def test_repaired_archive_mends_its_parts(papers: Papers) -> None:
    good = zipped({"a.md": "long enough to be damaged, word by word", "b.md": "b"})
    damaged = bytearray(good)
    damaged[good.index(b"a.md") + 8] ^= 0xFF
    archive = papers.folder / "a.zip"
    archive.write_bytes(bytes(damaged))
    figures = papers.sync()
    assert ("a.zip!/a.md" not in numbers(papers), figures["quarantined"]) == (True, 1)
    archive.write_bytes(good)
    papers.sync()
    assert "a.zip!/a.md" in numbers(papers)
    assert papers.ledger.quarantine.page("papers").rows == ()


def test_dropped_deletions_of_parts_are_compared_again(papers: Papers) -> None:
    files = {f"{number}.md": f"note {number}" for number in range(60)}
    archive = papers.folder / "a.zip"
    archive.write_bytes(zipped(files))
    papers.sync()
    archive.write_bytes(zipped({name: files[name] for name in list(files)[:5]}))
    assert papers.sync()["held"] == 55
    papers.ledger.intake.drop_hold(papers.source.id, "anna", "by mistake")
    assert papers.sync()["held"] == 55
    archive.write_bytes(zipped(files))
    papers.sync()
    assert not papers.ledger.intake.holds(papers.source.id) and len(numbers(papers)) == 61


def test_files_inside_are_read_by_the_rules_of_their_folder(papers: Papers) -> None:
    hidden = {".env": "SECRET=1", ".git/config": "[core]", "~$letter.docx": "", "x/desktop.ini": "[a]"}
    (papers.folder / "a.zip").write_bytes(zipped({"one.md": "1", "log.txt": "2", "x/two.md": "3", **hidden}))
    papers.settings = {"exclude": ["*.txt"], "include": ["*.zip"]}
    papers.sync()
    assert set(numbers(papers)) == {"a.zip", "a.zip!/one.md", "a.zip!/x/two.md"}
    (left,) = papers.ledger.intake.find("log.txt")
    assert (left.job_state, left.job_reason) == (JobState.SKIPPED, SkipReason.EXCLUDED)
    papers.settings = {"exclude": ["/a.zip!/x/"]}
    papers.sync()
    assert set(numbers(papers)) == {"a.zip", "a.zip!/one.md", "a.zip!/log.txt"}


def test_parts_follow_the_size_limit(papers: Papers) -> None:
    inner = zipped({"deep.md": "deep", "random.bin": os.urandom(30_000)})
    (papers.folder / "a.zip").write_bytes(zipped({"large.md": "word " * 5_000, "small.md": "s", "inner.zip": inner}))
    for limit, names in ((0.02, 1), (1, 4), (0.02, 1)):
        papers.settings = {"limits": {"max_mb": limit}}
        papers.policy = Policy(limits=Limits(max_mb=limit))
        papers.sync()
        assert len([name for name in numbers(papers) if "!/" in name]) == names, limit


def test_attachments_have_the_sender_and_the_date_of_their_message(papers: Papers) -> None:
    unix = LETTER.replace(b"\r\n", b"\n")
    (papers.folder / "letter.eml").write_bytes(LETTER)
    (papers.folder / "2.emlx").write_bytes(b"%d\n" % len(unix) + unix)
    (papers.folder / "m.mbox").write_bytes(b"From a@b Tue Mar  3 10:00:00 2026\n" + unix.replace(b"Agreed", b"Other"))
    headers = "From: ada@example.org\r\nDate: Tue, 3 Mar 2026 10:00:00 +0000\r\n"
    inner = zipped({"in.md": "# In an attached archive"})
    packed = LETTER.replace(b"text/markdown; name=minutes.md", b"application/zip; name=z.zip").replace(
        b"=minutes.md", b"=z.zip"
    )
    encoded = b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.encodebytes(inner)
    (papers.folder / "z.eml").write_bytes(packed.replace(b"\r\n\r\n# Agreed", b"\r\n" + encoded))
    folders = {
        "__attach_version1.0_#00000000": {"__substg1.0_3707001F": "o.md".encode("utf-16-le"), DATA: b"# Outlook"}
    }
    (papers.folder / "o.msg").write_bytes(
        samples.outlook_message({0x0037: "Minutes", 0x007D: headers}, folders=folders)
    )
    papers.sync()
    mails = search(papers.ledger, "date:2026-03-03 type:mail path:o.msg", datetime.now(UTC), lanes=Lanes.WORDS)
    assert [hit.item for hit in mails.hits] == ["o.msg"]
    results = search(papers.ledger, "from:ada date:2026-03-03 type:note", datetime.now(UTC), lanes=Lanes.WORDS)
    assert {place for hit in results.hits for _, place in hit.places} == {
        "letter.eml!/minutes.md",
        "2.emlx!/minutes.md",
        "m.mbox!/1@example.org.eml!/minutes.md",
        "o.msg!/o.md",
        "z.eml!/z.zip!/in.md",
    }


def test_attachment_of_a_forwarded_message_is_one_part(papers: Papers) -> None:
    (papers.folder / "fw.eml").write_bytes(
        b"From: bob@example.org\r\nSubject: Fwd\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=o\r\n\r\n"
        b"--o\r\n\r\nSee below.\r\n--o\r\nContent-Type: message/rfc822\r\n\r\n" + LETTER + b"--o--\r\n"
    )
    papers.sync()
    assert len([name for name in numbers(papers) if name.endswith("minutes.md")]) == 1


def test_folder_with_the_addresses_of_an_archive_is_quarantined(papers: Papers) -> None:
    (papers.folder / "a.zip").write_bytes(zipped({"1.md": "inside"}))
    (papers.folder / "b!").mkdir()
    (papers.folder / "b!/2.md").write_text("two")
    (papers.folder / "a.zip!").mkdir()
    (papers.folder / "a.zip!/1.md").write_text("beside")
    papers.sync()
    papers.sync()
    assert papers.documents() == {"a.zip": "- 1.md", "a.zip!/1.md": "inside", "b!/2.md": "two"}
    (entry,) = papers.ledger.quarantine.page("papers").rows
    assert (entry.item, entry.message.rpartition("; ")[2]) == ("a.zip!/", "rename it")
    (papers.folder / "a.zip!").rename(papers.folder / "a")
    papers.sync()
    assert papers.documents()["a/1.md"] == "beside"
    assert papers.ledger.quarantine.page("papers").rows == ()


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        *(
            ("cp437", name)
            for name in ("Münch_äöü Straße.md", "Précis élève.md", "Übung.md", "naïve façade.md", "Año.md")
        ),
        *(("cp850", name) for name in ("Münch_äöü Straße.md", "Précis élève.md", "Übung.md", "Größe der Bäume.md")),
        *(("cp1252", name) for name in ("Münch_äöü Straße.md", "Précis élève.md", "Übung.md", "Größe der Bäume.md")),
        ("shift_jis", "日本語のファイル.md"),
        ("cp866", "Привет мир.md"),
        ("utf-8", "Précis 日本.md"),
    ],
)
def test_names_in_old_code_pages_are_read(papers: Papers, encoding: str, name: str) -> None:
    raw = name.encode(encoding)
    data = zipped({"x" * len(raw): "words"}).replace(b"x" * len(raw), raw)
    (papers.folder / "a.zip").write_bytes(data)
    papers.sync()
    assert f"a.zip!/{name}" in numbers(papers)


def test_parts_are_listed_in_a_folder_whose_name_ends_like_an_archive(papers: Papers) -> None:
    folder = papers.folder / "Important!"
    folder.mkdir()
    (folder / "a.zip").write_bytes(zipped({"one.md": "1"}))
    (folder / "note.md").write_text("words")
    assert [step.item for step in papers.plan().steps] == ["Important!/a.zip", "Important!/note.md"]
    papers.sync()
    known = numbers(papers)
    (inside,) = papers.ledger.library.document(known["Important!/a.zip"]).attached
    assert (inside.name, inside.document) == ("one.md", known["Important!/a.zip!/one.md"])
    assert papers.ledger.library.document(known["Important!/note.md"]).carrier is None
