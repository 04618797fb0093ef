"""Documents of the example vault and a mail conversation as pages, and the files that the page shows of them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

import pytest
from PIL import Image
from sqlalchemy import update
from starlette.testclient import TestClient

from catchment.content.raw_store import RawStore
from catchment.ledger import Ledger
from catchment.ledger.db.schema import contents, documents
from catchment.model import Document, Item, Priority, RawContent
from catchment.runtime.home import Home
from connectors.local_files import LocalFilesSettings
from connectors.obsidian import ObsidianSettings
from tests.documents import document_named
from tests.ledger.test_messages import arrive, eml, quoted
from tests.ledger.test_reading import PDF, put
from tests.ledger.world import Clock, World, note
from tests.pictures.scanned_papers import ScannedPapers
from tests.pictures.scans import Programs, many, scan
from tests.pictures.stand_in import page_words
from tests.web.conftest import PROJECT
from tests.web.safety import faults
from tests.web.test_signin import HOST, PORT, TOKEN, sign_in
from web.__main__ import desk_of
from web.app import application
from web.guard import Guard
from web.readiness import Readiness
from web.warm_library import WarmLibrary

VAULT = PROJECT / "examples" / "vault"
GAUGE = "Projects/Ardel gauge/Ardel gauge.md"
FLOOD = "Projects/Ardel gauge/Flood of March.md"
CURVE = "Projects/Ardel gauge/Rating curve.md"
MAP = "apiary-map.png"
HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=alert(2)> ![far](https://far.example/a.png) [x](javascript:alert(3))"
)


@dataclass
class Reader:
    """A reader of a library on its page, with the folder of the vault."""

    client: TestClient
    world: World
    root: Path
    home: Home

    def number(self, locator: str) -> int:
        return next(row.document for row in self.world.ledger.intake.find(locator) if row.document is not None)

    def page(self, locator: str, query: str = "") -> str:
        response = self.client.get(f"/documents/{self.number(locator)}{query}")
        assert response.status_code == 200, response.text
        return response.text

    def article(self, locator: str, query: str = "") -> str:
        return self.page(locator, query).partition('<article class="prose" id="text">')[2].partition("</article>")[0]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("reading")
    home, root = Home(folder / "home").make(), folder / "vault"
    clock = Clock()
    world = World(home.database_url, clock, Ledger.open(home.database_url, clock=clock, monotonic=clock.steady))
    pictures = [str(path.relative_to(VAULT)) for path in VAULT.rglob(MAP)]
    for name in (*pictures, GAUGE, FLOOD, CURVE):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(VAULT / name, root / name)
    (root / "report.pdf").write_bytes(PDF)
    notes = {name: (VAULT / name).read_text().partition("\n---\n")[2] for name in (GAUGE, FLOOD, CURVE)}
    notes |= dict.fromkeys(pictures, "") | {"report.pdf": "", "Hostile.md": HOSTILE, "Far.png": ""}
    notes |= {f"old.zip!/{name}.md": f"zipped granary {name}" for name in "ab"}
    notes["Long.md"] = "".join(f"# Part {number}\n\n{'words ' * 3_000}\n\n" for number in range(4))
    put(world, notes, {"vault": "Vault"})
    world.see(note("Pump.md"))
    properties = {"cost": 749.9, "status": "run <b>", "tags": ["water"], "aliases": ["Lifter"]}
    done = replace(
        world.done((batch := world.claim()).jobs[0]), document=Document("x", "text/markdown", properties=properties)
    )
    world.ledger.queue.deliver(batch.token, [done])
    world.ledger.consents.give(world.source.id, {"everything"}, "me", None)
    notes_source = world.source
    world.source = world.ledger.sources.put("mail", "imap", Priority.NORMAL)
    world.sync = world.begin(world.source)
    answer = f"Yes, on Monday.\n\n{quoted('Can you come?')}\n-- \nInes, <b>warden</b>"
    arrive(world, ("m1", eml(1, "Can you come?")), ("m2", eml(2, answer, 1, attached=["plan.csv"])))
    world.source = notes_source
    library = WarmLibrary(
        home, lambda _reason: None, lambda: dict.fromkeys(("notes", "papers"), ObsidianSettings(root=root))
    )
    web = application(library, Readiness(library, None), desk_of(home), TOKEN)
    client = TestClient(Guard(web.app, web.check, PORT), base_url=HOST, follow_redirects=False)
    assert sign_in(client, home).status_code == 303
    yield Reader(client, world, root, home)
    world.ledger.close()


def test_note_has_its_picture_tasks_and_links_that_are_followed(reader: Reader) -> None:
    article, flood = reader.article(GAUGE), reader.number(FLOOD)
    assert f'<img src="/documents/{reader.number(GAUGE)}/file?embed={MAP}"' in article
    assert 'class="task done"' in article
    assert f'href="/documents/{flood}#t-block-peak"' in article
    assert 'id="t-block-peak"' in reader.article(FLOOD)
    assert 'class="missing"' in article
    backlink = f'<li><a href="/documents/{reader.number(CURVE)}">Rating curve</a></li>'
    assert f'<h2>Linked from <span>1</span></h2><ul class="list">{backlink}' in reader.page(GAUGE)


def test_note_has_its_callout_and_table(reader: Reader) -> None:
    assert 'class="callout' in reader.article(FLOOD)
    assert "<table>" in reader.article(CURVE)


def test_note_shows_its_properties(reader: Reader) -> None:
    page = reader.page("Pump.md")
    assert "<dt>cost</dt><dd>749.9</dd><dt>status</dt><dd>run &lt;b&gt;</dd></dl>" in page
    assert "<dt>tags</dt>" not in page and "<dt>aliases</dt>" not in page


def test_others_of_the_same_archive_are_links_below_the_best(reader: Reader) -> None:
    text = reader.client.get("/search?q=zipped+granary").text
    assert text.count('class="hit"') == 1
    best, other = sorted(
        ("old.zip!/a.md", "old.zip!/b.md"), key=lambda item: f'"/documents/{reader.number(item)}"' in text
    )
    assert f'+1 in old.zip: <a href="/documents/{reader.number(other)}">{other[9:]}</a>' in text, best


def test_note_opens_in_obsidian(reader: Reader) -> None:
    assert f'href="obsidian://open?vault=Vault&amp;file={quote(GAUGE, safe="")}"' in reader.page(GAUGE)


def test_html_of_strangers_stays_text_and_far_pictures_are_links(reader: Reader) -> None:
    article = reader.article("Hostile.md")
    assert faults(article) == []
    assert "<img" not in article
    assert '<a href="https://far.example/a.png" rel="noopener noreferrer" target="_blank"' in article


def test_long_document_is_shown_in_parts(reader: Reader) -> None:
    first, last = reader.page("Long.md"), reader.page("Long.md", "?page=99")
    assert "Part 1 of 4" in first and 'href="?page=2" rel="next"' in first
    assert "Part 4 of 4" in last and 'rel="next"' not in last
    assert "Part 1 of 4" in reader.page("Long.md", "?page=x")
    assert len(first) < 60_000


def test_picture_is_shown_and_sent_so_that_it_can_do_nothing(reader: Reader) -> None:
    response = reader.client.get(f"/documents/{reader.number(GAUGE)}/file?embed={MAP}")
    assert response.content == next(reader.root.rglob(MAP)).read_bytes()
    headers = response.headers
    assert headers["content-type"] == "image/png"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"
    assert headers["content-disposition"].startswith(f'inline; filename="{MAP}"')
    assert headers["cache-control"] == "private, no-cache"
    own = f"/documents/{reader.number(MAP)}/file"
    assert f'<img src="{own}"' in reader.article(MAP)
    assert reader.client.get(own).content == response.content


def test_pdf_is_offered_beside_its_text(reader: Reader) -> None:
    own = f"/documents/{reader.number('report.pdf')}/file"
    assert f'href="{own}" target="_blank">Open the PDF</a>' in reader.page("report.pdf")
    assert f'<iframe src="{own}#navpanes=0"' in reader.page("report.pdf")
    headers = reader.client.get(own).headers
    assert headers["content-type"] == "application/pdf"
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'self'"


def test_file_needs_a_session(reader: Reader) -> None:
    stranger = TestClient(reader.client.app, base_url=HOST)
    assert stranger.get(f"/documents/{reader.number('report.pdf')}/file").status_code == 401


@pytest.mark.parametrize("embed", ["../secret.png", "/etc/passwd", "report.pdf", "%00"])
def test_file_that_the_note_does_not_embed_is_refused(reader: Reader, embed: str) -> None:
    (reader.root.parent / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert reader.client.get(f"/documents/{reader.number(GAUGE)}/file?embed={embed}").status_code == 404


def test_symlink_out_of_the_vault_is_refused(reader: Reader) -> None:
    secret = reader.root.parent / "secret.png"
    secret.write_bytes(b"\x89PNG\r\n\x1a\npixels")
    (reader.root / "Far.png").symlink_to(secret)
    assert reader.client.get(f"/documents/{reader.number('Far.png')}/file").status_code == 404


def test_source_without_consent_shows_no_file(reader: Reader) -> None:
    world, consents = reader.world, reader.world.ledger.consents
    world.source = world.ledger.sources.put("papers", "obsidian", Priority.NORMAL)
    world.sync = world.begin(world.source)
    (reader.root / "own.pdf").write_bytes(PDF)
    put(world, {"own.pdf": "words"})
    address = f"/documents/{reader.number('own.pdf')}/file"
    consents.give(world.source.id, {"everything"}, "me", None)
    assert reader.client.get(address).status_code == 200
    consents.withdraw(world.source.id, {"everything"}, "me")
    assert reader.client.get(address).status_code == 404


def test_attached_pdf_is_served_from_the_raw_content_and_named(reader: Reader) -> None:
    world, notes = reader.world, reader.world.source
    world.source = world.ledger.sources.put("post", "imap", Priority.NORMAL)
    world.sync = world.begin(world.source)
    message = "INBOX;UIDVALIDITY=1;UID=6"
    part = f"{message};PART=2"
    arrive(world, (message, eml(6, "The lease.", subject="", attached=["Lease.pdf"])))
    put(world, {part: "words of the lease"})
    with world.ledger._store.write() as writing:
        writing.execute(
            update(contents).where(contents.c.text == "words of the lease").values(media_type="application/pdf")
        )
        writing.execute(update(documents).where(documents.c.path == message).values(title="message-6"))
    world.source = notes
    page, own = reader.page(part), f"/documents/{reader.number(part)}/file"
    assert "Lease.pdf in (no subject)" in page and "not kept here" in page and own not in page
    assert "<h1>(no subject)</h1>" in reader.page(message)
    found = reader.client.get("/search?q=lease").text
    assert "post: INBOX · Lease.pdf in (no subject)" in found and "message-6" not in found
    item = next(row for row in world.ledger.intake.find(part) if row.document)
    kept = Item(item.locator, item.container, item.version, item.identity)
    home = reader.home
    with closing(RawStore(home.raw, home.raw_bytes)) as raw:
        raw.put([(item.id, kept, RawContent(PDF, "Lease.pdf"))])
    world.ledger.consents.give(world.ledger.sources.get("post").id, {"everything"}, "me", None)
    assert f'<iframe src="{own}#navpanes=0"' in reader.page(part)
    response = reader.client.get(own)
    assert (response.content, response.headers["content-type"]) == (PDF, "application/pdf")
    assert response.headers["content-disposition"].startswith('inline; filename="Lease.pdf"')
    world.ledger.consents.withdraw(world.ledger.sources.get("post").id, {"everything"}, "me")
    assert reader.client.get(own).status_code == 404


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Ledger]]:
    """A browser at a library of a recognized scan as document 1, on its second page HTML and a picture on its side."""
    folder = tmp_path_factory.mktemp("scans")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Programs(folder / "programs").folder))
        papers = ScannedPapers(Home(folder / "home").make(), folder)
        tags = f"{HOSTILE.partition(' ![')[0]} written by a correspondent who likes tags very much"
        pages = [scan("Rules of the harbour\n\nHarbours close"), scan(tags, turn=90), scan("")]
        (folder / "scan.pdf").write_bytes(many(pages, "PDF"))
        papers.write("typed.md", "It is typed.")
        papers.work()
    home = papers.home
    settings = {"papers": LocalFilesSettings(root=folder)}
    library = WarmLibrary(home, lambda _reason: None, lambda: settings)
    web = application(library, Readiness(library, None), desk_of(home), TOKEN)
    client = TestClient(Guard(web.app, web.check, PORT), base_url=HOST, follow_redirects=False)
    assert sign_in(client, home).status_code == 303
    yield client, papers.ledger
    papers.ledger.close()


def test_recognized_words_of_a_search_are_marked_on_the_picture(scans: tuple[TestClient, Ledger]) -> None:
    client, ledger = scans
    number = document_named(ledger, "scan.pdf").document
    page = client.get(f"/documents/{number}?q=harbour").text
    assert re.findall(r'<img src="([^"]+)"', page) == [f"/documents/{number}/pages/{at}" for at in (1, 2)]
    assert [int(y) for y in re.findall(r'<rect x="0" y="(\d+)"', page)] == [1_000 * row // 48 for row in (4, 5)]
    assert "Rules of the harbour" in page
    assert "<rect" not in client.get(f"/documents/{number}").text


def test_html_on_a_picture_is_shown_as_text(scans: tuple[TestClient, Ledger]) -> None:
    client, ledger = scans
    page = client.get(f"/documents/{document_named(ledger, 'scan.pdf').document}?q=alert").text
    assert "likes tags very much" in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_drawn_page_is_upright_and_needs_a_session(scans: tuple[TestClient, Ledger]) -> None:
    client, ledger = scans
    address = f"/documents/{document_named(ledger, 'scan.pdf').document}/pages"
    response = client.get(f"{address}/2")
    assert response.headers["content-type"] == "image/png"
    assert response.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"
    assert response.headers["cache-control"] == "private, no-cache"
    picture = Image.open(BytesIO(response.content))
    assert (max(picture.size), page_words(picture)[-2:]) == (1_600, ["very", "much"])
    assert TestClient(client.app, base_url=HOST).get(f"{address}/2").status_code == 401


@pytest.mark.parametrize(
    "path", ["{scan}/pages/4", "{scan}/pages/0", "{typed}/pages/1", "99/pages/1", "{scan}/pages/x"]
)
def test_page_that_does_not_exist_is_not_found(scans: tuple[TestClient, Ledger], path: str) -> None:
    client, ledger = scans
    numbers = {
        name: document_named(ledger, f"{name}.{kind}").document for name, kind in (("scan", "pdf"), ("typed", "md"))
    }
    assert client.get(f"/documents/{path.format(**numbers)}").status_code == 404


def test_conversation_folds_quotations_and_lists_attachments(reader: Reader) -> None:
    page = reader.client.get(f"/conversations/{reader.number('m1')}").text
    assert page.count('class="msg"') == 2
    assert '<details class="quoted"><summary>Quoted text, ' in page
    assert "<b>warden" not in page
    assert "plan.csv" in page
    assert "2 messages in this conversation" in reader.page("m2")


def test_conversation_of_long_messages_is_shown_in_parts(reader: Reader) -> None:
    world, notes = reader.world, reader.world.source
    world.source = world.ledger.sources.put("mail", "imap", Priority.NORMAL)
    world.sync = world.begin(world.source)
    numbers = range(100, 121)
    text = "The pier is <rusty> & wet.\n" * 400
    arrive(world, *((f"n{number}", eml(number, text, *range(100, number))) for number in numbers))
    world.source = notes
    for name, is_first, is_last in (("n100", True, False), ("n110", False, False), ("n120", False, True)):
        page = reader.client.get(f"/conversations/{reader.number(name)}").text
        assert len(page.encode()) < 60_000
        assert f'id="m{reader.number(name)}"' in page
        assert "21 messages" in page
        assert ("earlier message" not in page, "later message" not in page) == (is_first, is_last)
        assert page.count('class="msg"') > 2
