"""The page in Chromium: signed in by a link, searched and read by keyboard alone. Saves screenshots."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from playwright.sync_api import TimeoutError as NoNavigation

from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.runtime import own_secrets
from catchment.runtime.home import Home
from deployments.health.incident_watch import IncidentWatch
from deployments.sources.entries import Timing, prepare
from deployments.sources.sources_file import SourcesFile
from tests.acceptance.person import PROJECT
from tests.ledger.world import PARSE_ERROR, Clock, World, note, notes
from tests.pictures.scanned_papers import ScannedPapers
from tests.pictures.scans import Programs, many, scan
from tests.web.conftest import fill, served

pytestmark = [pytest.mark.browser]
_PATIENCE = 120_000
expect.set_options(timeout=_PATIENCE)

_AXE = PROJECT / "build" / "node_modules" / "axe-core" / "axe.min.js"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_PAGES = (
    "/",
    "/search?q=bridge",
    "/documents/1",
    "/documents/1/versions",
    "/documents/1/diff",
    "/documents/4?q=harbour",
    "/trouble",
    "/sources",
    "/sources/new",
    "/sources/new?kind=imap",
    "/sources/limits",
    "/syncs",
    "/backfills",
    "/syncs/1",
    "/jobs",
    "/audit",
    "/jobs/1",
    "/why?item=Girder.md",
    "/health",
    "/nope",
)
_HTML = "<img src=x onerror=document.title='hostile'> is what the hostile correspondent has written on it"
_SIZES = {"wide": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with the notes as the documents 1 to 3, and a recognized scan of two pages as document 4."""
    folder = tmp_path_factory.mktemp("page")
    home = Home(folder / "home").make()
    fill(home)
    (folder / "scans").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Programs(folder / "programs").folder))
        papers = ScannedPapers(home, folder / "scans")
        pages = [scan("Rules of the harbour\n\nHarbours close"), scan(_HTML, turn=90)]
        (papers.folder / "scan.pdf").write_bytes(many(pages, "PDF"))
        papers.work()
        papers.ledger.close()
    with SourcesFile.changing(home.sources_file) as file:
        file.add(prepare("local_files", str(papers.folder), "papers", {}, Timing()))
    return home


@pytest.fixture(scope="module")
def url(home: Home) -> Iterator[str]:
    with served(home) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def requested() -> set[str]:
    """The hosts to which the pages have sent requests."""
    return set()


@pytest.fixture
def page(browser: Browser, home: Home, url: str, requested: set[str]) -> Iterator[Page]:
    """A browser that has followed a sign-in link. A message in its console is a failure."""
    context = _context(browser)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: requested.add(urlsplit(request.url).netloc))
    page.goto(f"{url}/signin?key={own_secrets.one_time_key(home.signin_keys)}")
    yield page
    context.close()
    assert [problem for problem in problems if "404" not in problem and "401" not in problem] == []


def test_link_signs_in_and_leaves_no_key_in_the_address(page: Page, url: str) -> None:
    expect(page).to_have_url(f"{url}/")
    expect(page.get_by_role("searchbox")).to_be_focused()


def test_link_in_a_file_signs_in(browser: Browser, home: Home, url: str, tmp_path: Path) -> None:
    """`catchment web` opens such a file. The browser sends a strict cookie only to pages that its own site has opened."""
    file = tmp_path / "signin.html"
    link = f"{url}/signin?key={own_secrets.one_time_key(home.signin_keys)}"
    file.write_text(f'<meta http-equiv="refresh" content="0; url={link}">')
    context = browser.new_context()
    page = context.new_page()
    page.goto(file.as_uri())
    expect(page).to_have_url(f"{url}/")
    expect(page.get_by_role("searchbox")).to_be_visible()
    context.close()


def test_reader_searches_and_reads_by_keyboard_alone(page: Page, url: str) -> None:
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("pier")
    expect(page.locator("#found .read-as")).to_contain_text("1 result")
    expect(page).to_have_url(f"{url}/search?q=pier")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".hit a")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/documents/1$"))
    expect(page.locator("article")).to_contain_text("corroded below the west pier")
    page.wait_for_load_state()
    for key, path in (("t", "/trouble"), ("s", "/sources"), ("y", "/syncs"), ("h", "/health"), ("l", "/")):
        _go(page, key)
        expect(page).to_have_url(f"{url}{path}")
        if path == "/":
            expect(page.get_by_role("searchbox")).to_be_focused()
        page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_back_from_a_typed_search_returns_to_the_library(page: Page, url: str) -> None:
    page.goto(f"{url}/health")
    page.goto(f"{url}/")
    page.keyboard.type("pier")
    expect(page).to_have_url(f"{url}/search?q=pier")
    page.keyboard.press("Enter")
    expect(page.locator("#found .read-as")).to_contain_text("1 result")
    page.go_back()
    expect(page).to_have_url(f"{url}/")
    expect(page.locator("#found .read-as")).to_contain_text("Latest documents")
    page.go_forward()
    expect(page.get_by_role("searchbox")).to_have_value("pier")
    expect(page.locator("#found .read-as")).to_contain_text("1 result")
    page.go_back()
    page.go_back()
    expect(page).to_have_url(f"{url}/health")


def test_filters_stay_while_the_query_is_typed(page: Page, url: str) -> None:
    page.goto(f"{url}/search?q=bridge")
    page.get_by_role("searchbox").fill("pier")
    expect(page.locator("#facets a").first).to_have_attribute("href", re.compile("q=pier"))
    expect(page.locator("#facets")).to_be_visible()


@pytest.mark.parametrize("path", ["/", "/sources", "/sources/new?kind=imap", "/search?q=bridge", "/health/trends"])
def test_page_fits_a_tablet(page: Page, url: str, path: str) -> None:
    page.set_viewport_size({"width": 768, "height": 1024})
    page.goto(f"{url}{path}")
    assert page.evaluate("document.documentElement.scrollWidth") == 768
    boxes = page.evaluate(
        "[...document.querySelectorAll('.wide')].filter(box => box.scrollWidth > box.clientWidth).length"
    )
    assert boxes == 0, "no table is cut off"


def test_forms_of_the_page_are_accepted(page: Page, url: str) -> None:
    page.goto(f"{url}/health")
    page.keyboard.press("?")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"{url}/signin")
    page.goto(f"{url}/health")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.parametrize("size", [*_SIZES, "beside"])
def test_recognized_page_has_the_words_of_the_search_marked(page: Page, url: str, size: str) -> None:
    width, height = _SIZES.get(size, (1_600, 1_000))
    page.set_viewport_size({"width": width, "height": height})
    page.goto(f"{url}/search?q=harbour")
    page.goto(url + (page.locator(".hit a", has_text="scan").first.get_attribute("href") or ""))
    expect(page.locator("article")).to_contain_text("Rules of the harbour")
    page.locator(".scans figure").nth(1).scroll_into_view_if_needed()
    pictures, text = page.locator(".scans img"), page.locator("article > p").first
    page.wait_for_load_state("networkidle")
    first, beside = pictures.first.bounding_box(), text.bounding_box()
    assert first is not None
    assert beside is not None
    assert (beside["x"] > first["x"] + first["width"]) == (size == "beside")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # The substitute of Tesseract reads word n in row n of 48, from the left edge.
    marks = [page.locator(".scans figure").first.locator("rect").nth(n).bounding_box() for n in (0, 1)]
    for mark, row in zip(marks, (4, 5), strict=True):
        assert mark is not None
        assert abs(mark["x"] - first["x"]) < 2
        assert abs(mark["y"] - first["y"] - first["height"] * row / 48) < 2
        assert abs(mark["height"] - first["height"] / 48) < 2
    assert page.locator(".scans figure").nth(1).locator("rect").count() == 0
    box = pictures.nth(1).bounding_box()
    assert box is not None
    assert box["width"] > 1.9 * box["height"], "it stands upright"
    assert "hostile" not in page.title()
    _picture(page, f"recognized-{size}")


def test_change_is_seen_on_an_open_page(page: Page, url: str, home: Home) -> None:
    page.goto(f"{url}/sources")
    expect(page.locator("#live")).to_have_text("Live")
    ledger = Ledger.open(home)
    try:
        name = ledger.sources.all()[0].name
        ledger.sources.pause(name, "test", "for a while")
        expect(page.locator(f"#source-{name}")).to_contain_text("Paused")
        ledger.sources.resume(name, "test")
        ledger.sources.hold(name, "test", "login refused")
        expect(page.locator(".badge")).to_contain_text("1")
        expect(page).to_have_title(re.compile(r"^\(1\) Sources"))
    finally:
        ledger.sources.resume(name, "test")
        ledger.close()


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        ("wide", "light"),
        ("phone", "dark"),
        pytest.param("wide", "dark", marks=pytest.mark.long),
        pytest.param("phone", "light", marks=pytest.mark.long),
    ],
)
def test_pages_have_no_known_barrier(page: Page, url: str, size: str, scheme: str) -> None:
    width, height = _SIZES[size]
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": width, "height": height})
    axe = _axe()
    for path in _PAGES:
        page.goto(url + path, wait_until="load")
        name = re.sub(r"\W+", "-", path.partition("?")[0].strip("/")) or "library"
        _picture(page, f"page-{name}-{size}-{scheme}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is wider than {width} px"
        # The policy of the page forbids a script element.
        page.evaluate(axe)
        found = page.evaluate("rules => axe.run({runOnly: rules})", _RULES)
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]] == [], path


def test_operator_decides_by_keyboard_alone(browser: Browser, tmp_path: Path) -> None:
    home = _in_trouble(tmp_path)
    with served(home) as port:
        page = _context(browser).new_page()
        page.goto(f"http://127.0.0.1:{port}/signin?key={own_secrets.one_time_key(home.signin_keys)}")
        expect(page.get_by_role("searchbox")).to_be_focused()
        page.keyboard.press("Escape")
        _go(page, "t")
        expect(page.get_by_role("heading", name="3 open problems")).to_be_visible()
        axe = _axe()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            page.evaluate(axe)
            found = page.evaluate("rules => axe.run({runOnly: rules})", _RULES)
            assert [one["id"] for one in found["violations"]] == [], scheme
        _open(page, "permission denied")
        page.keyboard.press("s")
        _confirm(page, "may be read again")
        _open(page, "items are gone")
        page.get_by_role("button", name="Delete 12 documents").focus()
        page.keyboard.press("Enter")
        _confirm(page, "moved to the archive")
        _open(page, "The file is damaged")
        page.keyboard.press("r")
        _confirm(page, "saved again")
        expect(page.get_by_role("heading", name="All is well")).to_be_visible()
        expect(page).to_have_title("Trouble · Catchment")
        page.context.close()


def test_pages_contact_nothing_else(page: Page, url: str, requested: set[str]) -> None:
    page.goto(f"{url}/documents/1")
    assert {host for host in requested if host} == {urlsplit(url).netloc}


def test_source_is_added_by_keyboard_alone(page: Page, url: str, tmp_path: Path) -> None:
    folder = tmp_path / "Sheets"
    folder.mkdir()
    (folder / "plan.md").write_text("The plan.")
    page.goto(f"{url}/sources/new")
    page.get_by_role("link", name="Folder with files").press("Enter")
    page.get_by_label("Folder", exact=True).focus()
    page.keyboard.type(str(folder))
    page.keyboard.press("Tab")
    page.keyboard.type("sheets")
    page.keyboard.press("Enter")
    expect(page.get_by_role("table", name="Files by type")).to_contain_text("md")
    page.get_by_role("button", name="Add sheets").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{url}/sources/sheets")
    expect(page.get_by_role("status", name="Result")).to_contain_text("Added sheets")
    for part in ("Settings", "Limits", "Consent", "Next sync", "Proof"):
        page.get_by_role("navigation", name="Parts of sheets").get_by_role("link", name=part).press("Enter")
        expect(page.get_by_role("navigation", name="Parts of sheets").locator("[aria-current]")).to_have_text(part)
        page.evaluate(_axe())
        found = page.evaluate("rules => axe.run({runOnly: rules})", _RULES)
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]] == [], part


def _context(browser: Browser) -> BrowserContext:
    """A browser without transitions: in the middle of a transition, colours have too little contrast."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(_PATIENCE)
    return context


def _in_trouble(folder: Path) -> Home:
    """A home with an item in quarantine, twelve held deletions and a held source."""
    home = Home(folder / "home").make()
    clock = Clock()
    world = World(home.database_url, clock, Ledger.open(home.database_url, clock=clock, monotonic=clock.steady))
    world.ingest(*notes(20))
    world.see(note("bad.pdf"))
    batch = world.claim()
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, PARSE_ERROR, retry_at=None)
    world.lose(*(item.locator for item in notes(12)))
    world.settle()
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.ledger.sources.put("papers", "local_files", Priority.NORMAL)
    world.ledger.sources.hold("papers", "catchment", "permission denied")
    with SourcesFile.changing(home.sources_file) as file:
        file.add(prepare("local_files", str(folder), "papers", {}, Timing()))
    IncidentWatch(
        home, lambda: world.ledger, lambda: nullcontext(world.ledger), dict, lambda _: None, is_up=False
    ).judge()
    world.ledger.close()
    return home


def _open(page: Page, title: str) -> None:
    """Open a problem with the keys of the list."""
    page.wait_for_load_state()
    _go(page, "t")
    for _ in range(5):
        page.keyboard.press("j")
        if title in (page.evaluate("document.activeElement.textContent") or ""):
            break
    page.keyboard.press("Enter")
    expect(page.locator("#case h1")).to_contain_text(title)
    # The keys work when the scripts have been executed, which may be after the text is visible.
    page.wait_for_load_state()


def _confirm(page: Page, reason: str) -> None:
    expect(page.get_by_role("dialog")).to_be_visible()
    page.get_by_role("dialog").get_by_role("textbox").focus()
    page.keyboard.type(reason)
    page.keyboard.press("Enter")
    expect(page.get_by_role("status", name="Result")).to_be_visible()


def _go(page: Page, key: str) -> None:
    """Press `g` and a key, again if more than the second passed between them that the page allows, and await the next page."""
    for _ in range(10):
        with suppress(NoNavigation), page.expect_navigation(timeout=20_000):
            page.keyboard.press("g")
            page.keyboard.press(key)
            return
    raise AssertionError(f"g {key} opened no page")


def _axe() -> str:
    if not _AXE.exists():
        missing = f"axe-core is missing: npm install --prefix {PROJECT / 'build'} --ignore-scripts axe-core@4.14.1"
        if os.environ.get("CATCHMENT_CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return _AXE.read_text(encoding="utf-8")


def _picture(page: Page, name: str) -> None:
    # An open stream keeps the network busy.
    folder = PROJECT / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png", animations="disabled")
