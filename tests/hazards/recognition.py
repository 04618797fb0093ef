"""Hazards of the text recognition: hostile pictures, accidents of Tesseract, and files and consent that go meanwhile."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from catchment.errors import ItemError
from catchment.runtime.home import Home
from catchment.sync.preflight import WHOLE
from catchment.sync.revoke import Extent, revoke
from tests.engine.test_recognized_pages import png as plain
from tests.hazards.model import Area, Hazard, Held, Truth, Verdict, judge
from tests.pictures.scanned_papers import ScannedPapers
from tests.pictures.scans import Programs, png, scan, scanned
from tests.pictures.test_drawing import tiff

_ALL = Extent(frozenset({WHOLE}), lambda _locator: True, whole=True)
_HTML = '<img src=x onerror="document.title=1"> \x01bell\x07 \x1b[31m'
_MISSING_PAGE = "page 2: its text could not be recognized: "


@dataclass(frozen=True)
class Desk:
    """The folder of each hazard, and the substitute of Tesseract that reads the scans in it."""

    folder: Path
    programs: Programs

    def papers(self, name: str) -> ScannedPapers:
        """Return a new library with a scan that each hazard has to leave as it is."""
        folder = self.folder / name / "papers"
        folder.mkdir(parents=True)
        papers = ScannedPapers(Home(self.folder / name / "home").make(), folder)
        papers.scan("neighbour.pdf", "Words of the neighbour")
        self.programs.install()
        return papers


@contextmanager
def desk(folder: Path) -> Iterator[Desk]:
    folder.mkdir(parents=True, exist_ok=True)
    programs, path = Programs(folder / "programs"), os.environ["PATH"]
    os.environ["PATH"] = str(programs.folder)
    try:
        yield Desk(folder, programs)
    finally:
        os.environ["PATH"] = path


def found(papers: ScannedPapers, expected: Truth, **reasons: str) -> Verdict:
    """Judge the library. `reasons`: the reasons for which items are in quarantine, by the name before the dot."""
    # A picture that cannot be read stays in the library by its name.
    texts = {name: [text] for name, text in papers.documents().items() if text or name not in papers.problems()}
    problems = {name.partition(".")[0]: (name, problem) for name, problem in papers.problems().items()}
    verdict = judge({"neighbour.pdf": "Words of the neighbour", **expected}, Held(texts, frozenset()))
    verdict.expect(problems.keys() == reasons.keys(), f"in quarantine: {sorted(problems)}")
    for name, reason in reasons.items():
        verdict.expect(reason in problems.get(name, ("", ""))[1], f"{name}: {problems.get(name)}")
    verdict.expect(papers.ledger.check(deep=True) == [], "the ledger is not sound")
    verdict.expect(not papers.ledger.recognition.needs_run(), "pages wait")
    return verdict


def hostile(at: Desk, name: str, make: Callable[[], bytes], reason: str) -> Verdict:
    """A picture in the folder. `reason`: why it is in quarantine; "" if it is in the library."""
    stem = name.partition(".")[0]
    papers = at.papers(stem)
    (papers.folder / name).write_bytes(make())
    papers.work()
    return found(papers, {} if reason else {name: ""}, **({stem: reason} if reason else {}))


def accident(at: Desk, word: str, reason: str) -> Verdict:
    """The program meets an accident on the second of three pages."""
    papers = at.papers(word[1:])
    papers.scan("scan.pdf", "Words before", f"{word} words", "Words after")
    papers.work()
    verdict = found(papers, {"scan.pdf": "Words before\n\nWords after"})
    warnings = [name for name in papers.warnings("scan.pdf") if name.startswith(_MISSING_PAGE) and reason in name]
    verdict.expect(len(warnings) == 1, f"the page is not named: {papers.warnings('scan.pdf')}")
    return verdict


def removed_between_pages(at: Desk) -> Verdict:
    papers = at.papers("removed")
    papers.scan("scan.pdf", "!remove Words before", "Words after")
    papers.sync()
    verdict = Verdict()
    try:
        papers.recognize()
        verdict.wrong.append("the run does not fail")
    except ItemError:
        pass
    verdict.expect(papers.recognize()[0].get("off", "").startswith("Tesseract is not installed"), "no reason is given")
    at.programs.install()
    papers.work()
    verdict.wrong += found(papers, {"scan.pdf": "Words before\n\nWords after"}).wrong
    return verdict


def odd_characters(at: Desk) -> Verdict:
    papers = at.papers("odd")
    papers.scan("scan.pdf", f"{_HTML} is on the page of a hostile correspondent who likes tags")
    papers.work()
    return found(papers, {"scan.pdf": "of a hostile correspondent"})


def file_gone(at: Desk) -> Verdict:
    papers = at.papers("gone")
    file = papers.scan("scan.pdf", "Words that go")
    papers.sync()
    file.unlink()
    papers.recognize()
    papers.sync()
    return found(papers, {})


def file_replaced(at: Desk) -> Verdict:
    papers = at.papers("replaced")
    file = papers.scan("first.pdf", "Words of both")
    shutil.copy(file, papers.folder / "second.pdf")
    papers.sync()
    papers.scan("first.pdf", "Other words")
    papers.recognize()
    papers.work()
    papers.work()
    return found(papers, {"first.pdf": "Other words", "second.pdf": "Words of both"})


def packed(at: Desk) -> Verdict:
    papers = at.papers("packed")
    (papers.folder / "scan.pdf.gz").write_bytes(gzip.compress(scanned("Words in a packed file")))
    papers.work()
    return found(papers, {"scan.pdf.gz": "Words in a packed file"})


def consent_withdrawn(at: Desk) -> Verdict:
    papers = at.papers("withdrawn")
    papers.scan("scan.pdf", "Chrysanthemum")
    papers.work()
    papers.scan("late.pdf", "Rhododendron")
    papers.sync()
    calls = len(at.programs.calls())
    revoke(papers.home, papers.ledger, papers.source, _ALL, "anna")
    papers.recognize()
    verdict = Verdict()
    verdict.expect(len(at.programs.calls()) == calls, "a page was read without consent")
    verdict.expect(papers.documents() == {}, "documents are left")
    papers.ledger.close()
    words = (b"Chrysanthemum", b"Rhododendron", b"neighbour")
    data = b"".join(file.read_bytes() for file in papers.home.path.rglob("*") if file.is_file())
    verdict.expect(not any(word in data for word in words), "recognized text is left")
    verdict.expect(b"\x89PNG" not in data, "a drawn page is left")
    return verdict


def _hazard(name: str, expected: str, happens: Callable[..., Verdict], *values: object) -> Hazard[Desk]:
    return Hazard(name, expected, lambda at: happens(at, *values))


_NAMED = "reported; the others are found"
_DAMAGED = "the picture is damaged"
AREA = Area(
    "recognition",
    desk,
    (
        _hazard(
            "a decompression bomb", _NAMED, hostile, "bomb.png", partial(plain, 100_000, 30_000), "make it smaller"
        ),
        _hazard(
            "a picture of 100,000 pixels in width", "stored", hostile, "wide.png", partial(plain, 100_000, 500), ""
        ),
        _hazard("a truncated picture", _NAMED, hostile, "cut.png", lambda: png(scan("Words"))[:700], _DAMAGED),
        _hazard("an endless TIFF", "stored", hostile, "endless.tiff", partial(tiff, 3, 8), ""),
        _hazard("a stuck Tesseract", "the page is named", accident, "!stall", "not finished within"),
        _hazard("a page that needs too much memory", "the page is named", accident, "!swell", ""),
        _hazard("Tesseract exits on a page", "the page is named", accident, "!die", "the text recognition failed"),
        _hazard("the parser is killed on a page", "the page is named", accident, "!kill", "SIGKILL"),
        _hazard("Tesseract is removed between two pages", "read after it is back", removed_between_pages),
        _hazard("HTML and control characters on a page", "the text is found", odd_characters),
        _hazard("a file goes before its pages are read", "removed", file_gone),
        _hazard("a file changes before its pages are read", "each has its own text", file_replaced),
        _hazard("a packed scan", "the text is found", packed),
        _hazard("consent is withdrawn while pages wait", "nothing is read or left", consent_withdrawn),
    ),
)
