"""Hazards of files inside files: damaged and hostile archives and mailboxes, and those that change between or during syncs."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import reduce
from io import BytesIO
from pathlib import Path

from pypdfium2 import PdfDocument

from catchment.model import JobState
from catchment.runtime.home import Home
from tests.acceptance.person import PROJECT
from tests.engine.papers import Papers
from tests.engine.test_more_archives import rar
from tests.engine.test_outlook_files import DATA, LONG
from tests.engine.test_outlook_files import message as outlook
from tests.engine.test_parts import numbers, tarred, zipped
from tests.hazards.model import Area, Hazard, Held, Truth, Verdict, judge

_NEIGHBOUR = "Words of the neighbour"
_DAMAGED = "the archive is damaged"
_LOCKED = "encrypted; unpack it with its password"
_MANY = 3_000


def made(folder: Path, **files: bytes) -> Papers:
    """Return a synced library with a neighbour and these files; `_` stands for the dot in their names."""
    (folder / "papers").mkdir(parents=True)
    papers = Papers(Home(folder / "home").make(), folder / "papers")
    papers.write("neighbour.md", _NEIGHBOUR)
    for name, data in files.items():
        (papers.folder / name.replace("_", ".")).write_bytes(data)
    papers.sync()
    return papers


def found(papers: Papers, expected: Truth, reasons: Mapping[str, str] | None = None) -> Verdict:
    """Judge the library, and that another sync and a proof find nothing to do.

    `reasons`: the items in quarantine, and why. A container with parts is expected without saying so.
    """
    problems = {entry.item: entry.message for entry in papers.ledger.quarantine.page("papers").rows}
    before = papers.documents()
    containers = {name[:at] for name in expected for at in range(len(name)) if name.startswith("!/", at)}
    truth = {"neighbour.md": _NEIGHBOUR, **dict.fromkeys(containers, ""), **expected}
    verdict = judge(truth, Held({name: [text] for name, text in before.items()}, frozenset(problems)))
    verdict.expect(problems.keys() == (reasons or {}).keys(), f"in quarantine: {sorted(problems)}")
    for name, reason in (reasons or {}).items():
        verdict.expect(reason in problems.get(name, ""), f"{name}: {problems.get(name)}")
    papers.sync()
    verdict.expect(papers.documents() == before, "the next sync changes the library")
    verdict.expect(papers.ledger.check(deep=True) == [], "the ledger is not sound")
    differing = {finding.item for finding in papers.prove(deep=True).findings} - (reasons or {}).keys()
    verdict.expect(not differing, f"a proof finds differences: {sorted(differing)}")
    return verdict


def few(words: str = "first", count: int = 8) -> dict[str, bytes]:
    """Return files for an archive. Each text is long enough to be damaged."""
    return {f"{number}.md": f"{words} text {number} of the archive".encode() for number in range(count)}


def inside(archive: str, files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the expected documents of files in an archive."""
    return {f"{archive}!/{name}": data.decode() for name, data in files.items()}


def truncated(folder: Path) -> Verdict:
    whole = zipped(few()), tarred(few(count=400))
    papers = made(folder, a_zip=whole[0], b_tgz=whole[1], c_zip=whole[0][:-30], d_tgz=whole[1][: len(whole[1]) // 2])
    for name, data in zip(("a.zip", "b.tgz"), whole, strict=True):
        (papers.folder / name).write_bytes(data[: len(data) // 2])
    papers.sync()
    kept = inside("a.zip", few()) | inside("b.tgz", few(count=400)) | {"c.zip": None, "d.tgz": None}
    verdict = found(papers, kept, dict.fromkeys(("a.zip", "b.tgz", "c.zip", "d.tgz"), _DAMAGED))
    for name, data in zip(("a.zip", "b.tgz", "c.zip", "d.tgz"), whole * 2, strict=True):
        (papers.folder / name).write_bytes(data)
    papers.sync()
    for name, count in {"c.zip": 8, "d.tgz": 400}.items():
        kept |= inside(name, few(count=count))
    del kept["c.zip"], kept["d.tgz"]
    verdict.wrong += found(papers, kept).wrong
    return verdict


def bomb(folder: Path) -> Verdict:
    zeros = zipped({"zeros.txt": bytes(90_000_000)})
    levels = [zipped({f"{number}.zip": zeros for number in range(5)})]
    levels += [zipped({f"{number}.zip": levels[0] for number in range(9)})]
    papers = made(folder, bomb_zip=levels[1], large_zip=zipped({"big.md": bytes(300_000_000), "small.md": b"small"}))
    expected: Truth = {"bomb.zip": None, "large.zip!/small.md": "small"}
    return found(papers, expected, {"bomb.zip": "unpacks to more than 2,000 MB"})


def twelve_levels(folder: Path) -> Verdict:
    data = reduce(lambda data, level: zipped({f"{level}.md": f"level {level}", "a.zip": data}), range(12, 1, -1), b"")
    paths = ["a.zip" + "!/a.zip" * level for level in range(6)]
    papers = made(folder, a_zip=zipped({"1.md": "level 1", "a.zip": data}))
    expected = {f"{path}!/{level}.md": f"level {level}" for level, path in enumerate(paths[:5], 1)}
    return found(papers, {**expected, paths[5]: ""}, {f"{paths[5]}!/…": "an archive in more than 5 others"})


def hostile_names(folder: Path) -> Verdict:
    sources = {
        "../../up.md": "up.md",
        "up.md": "up (2).md",
        "/etc/rooted.md": "etc/rooted.md",
        "..\\..\\back.md": "back.md",
        "C:\\drive.md": "C:/drive.md",
        "a.zip!/mark.md": "a.zip!\u2215mark.md",
        "con.md": "con.md",
        "d/NUL.txt": "d/NUL.txt",
        "d/dot. /aux.md": "d/dot. /aux.md",
        "bell\x07.md": "bell\ufffd.md",
    }
    files = {name: f"words of {path}" for name, path in sources.items()}
    packed = {"a.zip": zipped(files), "b.tgz": tarred({name: text.encode() for name, text in files.items()})}
    papers = made(folder, **{name.replace(".", "_"): data for name, data in packed.items()})
    expected = {f"{archive}!/{path}": f"words of {path}" for archive in packed for path in sources.values()}
    return found(papers, expected)


def links(folder: Path) -> Verdict:
    """Symbolic and hard links out of a tar file, and a file below one."""
    secret = folder / "secret.md"
    folder.mkdir(parents=True)
    secret.write_text("of another user")
    written = BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, kind, to in (("link.md", tarfile.SYMTYPE, secret), ("hard.md", tarfile.LNKTYPE, secret)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, str(to)
            archive.addfile(info)
        info = tarfile.TarInfo("link.md/inside.md")
        info.size = 5
        archive.addfile(info, BytesIO(b"below"))
    return found(made(folder, a_tar=written.getvalue()), {"a.tar!/link.md/inside.md": "below"})


def twins(folder: Path) -> Verdict:
    names = ("Note.md", "note.md", "NOTE.md", "caf\u00e9.md", "cafe\u0301.md")
    return found(
        made(folder, a_zip=zipped({name: f"words of {name}" for name in names})),
        {f"a.zip!/{name}": f"words of {name}" for name in names},
    )


def japanese(folder: Path) -> Verdict:
    name = "議事録と予定表.md"
    raw = name.encode("shift_jis")
    data = zipped({"x" * len(raw): "words"}).replace(b"x" * len(raw), raw)
    return found(made(folder, a_zip=data), {f"a.zip!/{name}": "words"})


def encrypted(folder: Path) -> Verdict:
    data = bytearray(zipped(few(count=3)))
    second = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4)
    data[second + 8] |= 1
    papers = made(folder, a_zip=bytes(data), b_rar=rar({"0.md": b"0"}, main=0x80))
    expected = {name: text for name, text in inside("a.zip", few(count=3)).items() if name != "a.zip!/1.md"}
    verdict = found(papers, {**expected, "b.rar": None}, {"a.zip!/1.md": _LOCKED, "b.rar": _LOCKED})
    (papers.folder / "a.zip").write_bytes(zipped(few(count=3)))
    (papers.folder / "b.rar").write_bytes(rar(few(count=3)))
    papers.sync()
    verdict.wrong += found(papers, inside("a.zip", few(count=3)) | inside("b.rar", few(count=3))).wrong
    return verdict


def replaced_while_read(folder: Path) -> Verdict:
    """Two programs save two archives again and again: one by rename, the other in place."""
    versions = [zipped(few(words, 300)) for words in ("first", "other")]
    papers = made(folder)
    stopped = threading.Event()

    def save() -> None:
        while not stopped.wait(0.03):
            versions.reverse()
            (papers.folder / ".new").write_bytes(versions[0])
            (papers.folder / ".new").rename(papers.folder / "a.zip")
            (papers.folder / "b.zip").write_bytes(versions[0])

    saving = threading.Thread(target=save)
    saving.start()
    try:
        for _ in range(3):
            papers.sync()
    finally:
        stopped.set()
        saving.join()
    for name, words in (("a.zip", "first"), ("b.zip", "other")):
        (papers.folder / name).write_bytes(zipped(few(words, 300)))
    papers.sync()
    return found(papers, inside("a.zip", few("first", 300)) | inside("b.zip", few("other", 300)))


def renamed_and_changed(folder: Path) -> Verdict:
    papers = made(folder, a_zip=zipped(few()), b_zip=zipped(few("other")))
    changed = {**few(), "1.md": b"a changed text", "new.md": b"a new text"}
    del changed["2.md"]
    for old, new in (("a.zip", "x.zip"), ("b.zip", "a.zip")):
        (papers.folder / old).rename(papers.folder / new)
    (papers.folder / "x.zip").write_bytes(zipped(changed))
    papers.sync()
    return found(papers, inside("x.zip", changed) | inside("a.zip", few("other")))


def exchanged(folder: Path) -> Verdict:
    papers = made(folder, a_zip=zipped(few()), b_zip=zipped(few("other")), c_tgz=tarred(few("third")))
    for old, new in (("a.zip", "x"), ("b.zip", "a.zip"), ("x", "b.zip"), ("c.tgz", "d.tgz")):
        (papers.folder / old).rename(papers.folder / new)
    papers.sync()
    return found(papers, inside("a.zip", few("other")) | inside("b.zip", few()) | inside("d.tgz", few("third")))


def folder_instead(folder: Path) -> Verdict:
    """An archive is unpacked into a folder of its name, and packed again."""
    papers = made(folder, a_zip=zipped(few()))
    archive = papers.folder / "a.zip"
    archive.unlink()
    for name, data in few().items():
        papers.write(f"a.zip/{name}", data.decode())
    papers.sync()
    verdict = found(papers, {f"a.zip/{name}": data.decode() for name, data in few().items()})
    shutil.rmtree(archive)
    archive.write_bytes(zipped(few()))
    papers.sync()
    verdict.wrong += found(papers, inside("a.zip", few())).wrong
    return verdict


def folder_of_the_same_address(folder: Path) -> Verdict:
    """A folder `a.zip!` beside the archive `a.zip`, with a file of the same name."""
    papers = made(folder)
    papers.write("a.zip!/0.md", "in the folder")
    (papers.folder / "a.zip").write_bytes(zipped(few(count=2)))
    papers.sync()
    verdict = found(papers, inside("a.zip", few(count=2)), {"a.zip!/": "rename it"})
    (papers.folder / "a.zip!").rename(papers.folder / "a")
    papers.sync()
    verdict.wrong += found(papers, {"a/0.md": "in the folder", **inside("a.zip", few(count=2))}).wrong
    return verdict


def moved_inside(folder: Path) -> Verdict:
    papers = made(folder)
    for name, data in few().items():
        papers.write(f"d/{name}", data.decode())
    papers.sync()
    before = {path.rpartition("/")[2]: number for path, number in numbers(papers).items()}
    shutil.rmtree(papers.folder / "d")
    (papers.folder / "a.zip").write_bytes(zipped(few()))
    papers.sync()
    after = {path.rpartition("/")[2]: number for path, number in numbers(papers).items() if path != "a.zip"}
    verdict = found(papers, inside("a.zip", few()))
    verdict.expect(after == before, "documents have other numbers")
    return verdict


def letter(number: int, body: str, *, name: bool = True) -> str:
    """Return a message of a mailbox."""
    own = f"Message-ID: <{number}@example.org>\n" if name else ""
    return f"From ada Tue Mar  3 10:0{number}:00 2026\nFrom: ada@example.org\n{own}Subject: Nr {number}\n\n{body}\n\n"


def mailbox_cut(folder: Path) -> Verdict:
    whole = "".join(letter(number, f"Begin of {number} and end of {number}") for number in range(5))
    papers = made(folder, m_mbox=whole.encode())
    expected = {f"m.mbox!/{number}@example.org.eml": f"Begin of {number} and end" for number in range(5)}
    for at, last in ((" and end of 4", 4), ("Subject: Nr 3", 3)):
        (papers.folder / "m.mbox").write_text(whole[: whole.index(at)])
        papers.sync()
        expected = {name: text for name, text in expected.items() if int(name[8]) <= last}
        expected[f"m.mbox!/{last}@example.org.eml"] = "Begin of 4" if last == 4 else ""
        verdict = found(papers, expected)
        if not verdict.right:
            return verdict
    (papers.folder / "m.mbox").write_text(whole)
    papers.sync()
    return found(papers, {f"m.mbox!/{number}@example.org.eml": f"and end of {number}" for number in range(5)})


def from_lines(folder: Path) -> Verdict:
    bodies = (
        "From the pier we left at 10:30.\nThen the bridge.",
        ">From here on it is quoted.",
        "From ada Tue Mar  3 10:00:00 2026\n\nA separator line alone.",
        "From 10:30 to 11:00\nthe weir is closed: mind the step.",
    )
    papers = made(folder, m_mbox="".join(letter(number, body) for number, body in enumerate(bodies)).encode())
    texts = [body.rpartition("\n")[2].lstrip(">") for body in bodies]
    return found(papers, {f"m.mbox!/{number}@example.org.eml": text for number, text in enumerate(texts)})


def mail_without_names(folder: Path) -> Verdict:
    equal, other = letter(1, "The same words", name=False), letter(2, "Other words", name=False)
    papers = made(folder, m_mbox=(equal + other + equal).encode())
    before = numbers(papers)
    verdict = found(papers, dict.fromkeys(before.keys() - {"neighbour.md"}, ""))
    texts = sorted(text.rpartition("\n")[2] for name, text in papers.documents().items() if "!/" in name)
    verdict.expect(texts == ["Other words", "The same words", "The same words"], f"the texts are {texts}")
    (papers.folder / "m.mbox").write_text(other + equal)
    papers.sync()
    after = numbers(papers)
    verdict.expect(len(after) == 4 and after.items() <= before.items(), "the others have other documents")
    return verdict


def carriers(folder: Path) -> Verdict:
    """A message of Outlook and a PDF, whose files change and leave."""
    papers = made(folder, m_msg=outlook({LONG: "a.md", DATA: b"first"}, {LONG: "z.zip", DATA: zipped(few(count=2))}))

    def pdf(files: Mapping[str, bytes]) -> None:
        with closing(PdfDocument.new()) as document:
            document.new_page(200, 200)
            for name, data in files.items():
                document.new_attachment(name).set_data(data)
            document.save(papers.folder / "p.pdf")

    pdf({"b.md": b"first of the PDF", "c.zip": zipped(few(count=2))})
    papers.sync()
    nested = inside("m.msg!/z.zip", few(count=2)) | inside("p.pdf!/c.zip", few(count=2))
    verdict = found(papers, {"m.msg!/a.md": "first", "p.pdf!/b.md": "first of the PDF", **nested})
    (papers.folder / "m.msg").write_bytes(outlook({LONG: "a.md", DATA: b"second"}))
    pdf({"b.md": b"second of the PDF"})
    papers.sync()
    verdict.wrong += found(papers, {"m.msg!/a.md": "second", "p.pdf!/b.md": "second of the PDF"}).wrong
    return verdict


_SYNC = "import sys; from benchmarks.engine import sync; from tests.hazards.containers import Home, Path; "
_SYNC += "sync('local_files', Path(sys.argv[1]), Home(Path(sys.argv[2])), name='papers')"


def killed(folder: Path) -> Verdict:
    """The process of a sync is killed in the middle of an archive, three times."""
    papers = made(folder)
    (papers.folder / "a.zip").write_bytes(zipped(few(count=_MANY)))
    verdict = Verdict()

    def read() -> int:
        return papers.ledger.queue.counts()["papers"].get(JobState.SUCCEEDED, 0)

    for share in (1, 2, 3):
        command = [sys.executable, "-c", _SYNC, str(papers.folder), str(papers.home.path)]
        with subprocess.Popen(command, cwd=PROJECT) as process:
            while process.poll() is None and read() < _MANY * share // 5:
                time.sleep(0.02)
            process.kill()
        verdict.expect(process.returncode == -signal.SIGKILL, f"ended before with {process.returncode}")
    verdict.expect(read() < _MANY, "nothing is left to do")
    papers.sync()
    verdict.wrong += found(papers, inside("a.zip", few(count=_MANY))).wrong
    return verdict


@contextmanager
def place(folder: Path) -> Iterator[Path]:
    """Yield the folder of all hazards."""
    yield folder


def _hazard(name: str, expected: str, happens: Callable[[Path], Verdict]) -> Hazard[Path]:
    return Hazard(name, expected, lambda folder: happens(folder / happens.__name__))


AREA = Area(
    "containers",
    place,
    (
        _hazard("truncated archives", "reported; no deletion", truncated),
        _hazard("a zip bomb", "reported; the others are read", bomb),
        _hazard("an archive of twelve levels", "five are read; reported", twelve_levels),
        _hazard("names with .., drives and devices", "each inside the archive", hostile_names),
        _hazard("links out of an archive", "not followed", links),
        _hazard("twins by case and by normal form", "each under its name", twins),
        _hazard("names in Shift-JIS", "the right names", japanese),
        _hazard("an encrypted file and archive", "reported; read when unlocked", encrypted),
        _hazard("archives are saved while they are read", "the last version", replaced_while_read),
        _hazard("an archive is renamed and changed", "under the new name only", renamed_and_changed),
        _hazard("two archives exchange their names", "each under its new name", exchanged),
        _hazard("an archive becomes a folder, and back", "each file once", folder_instead),
        _hazard("a folder has the address of an archive", "nothing lost", folder_of_the_same_address),
        _hazard("files move into an archive", "the same documents", moved_inside),
        _hazard("a mailbox is cut", "the rest; no duplicates", mailbox_cut),
        _hazard("`From ` lines in messages", "whole messages", from_lines),
        _hazard("equal messages without Message-ID", "each once", mail_without_names),
        _hazard("files in Outlook and PDF change", "the new files", carriers),
        _hazard("a sync is killed within an archive", "continues", killed),
    ),
)
