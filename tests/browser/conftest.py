"""The Prefect UI in Chromium, with a synced vault and a paused source. Every test saves a screenshot."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.notes import generate
from tests.acceptance.person import PROJECT, Person, upright

_PICTURES = PROJECT / "build" / "screenshots"
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, or an error with installation instructions. Its event loop runs while it is open."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        missing = "Chromium is missing; on Debian: apt install chromium"
        if os.environ.get("CATCHMENT_CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def person(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A user with the example vault as `vault`, 3,000 notes as `many`, both synced, and the paused source `lost`."""
    folder = tmp_path_factory.mktemp("browser")
    generate(folder / "many", 3_000)
    (folder / "lost").mkdir()
    with upright(Person(folder / "home")) as person:
        vault, lost = PROJECT / "examples" / "vault", folder / "lost"
        person("add", "obsidian", vault, "--name", "vault", "--every", "15m").ok()
        person("add", "local_files", lost, "--name", "lost", "--cron", "0 7 * * *").ok()
        person("add", "obsidian", folder / "many", "--name", "many").ok()
        person("sync", "many").ok()
        person.sync("vault")
        lost.rename(folder / "elsewhere")
        while person.source("lost")["state"] != "held":
            person("sync", "lost", "--wait")
        person.sync("many")
        yield person


@pytest.fixture(scope="module")
def asked() -> set[str]:
    """The hosts to which the pages of `page` have sent requests."""
    return set()


@pytest.fixture(scope="module")
def login(browser: Browser, person: Person, asked: set[str]) -> Iterator[Page]:
    """A browser page that has followed the link of `catchment web`, which signs in to the page and to the Prefect UI."""
    page = browser.new_context(viewport={"width": 1400, "height": 1500}).new_page()
    page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
    page.goto(person("web", "--no-browser").ok().out.strip())
    page.wait_for_url(f"{person.running.page_url}/")
    page.goto("about:blank")
    asked.clear()
    yield page
    page.context.close()


@pytest.fixture
def page(login: Page, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The logged-in page. Its screenshot is saved in build/screenshots, also after a failure."""
    yield login
    picture(login, re.sub(r"\W+", "-", request.node.name.removeprefix("test_")))


def picture(page: Page, name: str) -> None:
    """Save a screenshot once the page is rendered."""
    _PICTURES.mkdir(parents=True, exist_ok=True)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=_PICTURES / f"{name}.png", animations="disabled")
