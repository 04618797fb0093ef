"""Take docs/images/page-*.png of the page, with the example vault and a few things that go wrong.

python docs/images/screenshots.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent
PROJECT = IMAGES.parents[1]
PLACE = Path(tempfile.gettempdir()) / "catchment"
"""Its path is on one of the pictures."""
VAULT = PLACE / "Vault"
OPENED = {"document": ".hit a", "sync": "#runs tr:has-text('updated') a"}
"""Pages that are reached by the first such link."""
PAGES = {
    "search": "/search?q=how+do+bees+survive+the+winter",
    "document": "/search?q=varroa+plan",
    "trouble": "/trouble",
    "deletions": "/trouble/deletions/vault",
    "source": "/sources/vault",
    "syncs": "/syncs",
    "sync": "/syncs",
    "health": "/health",
}


def main() -> None:
    """Fill a home, and take each page, light, 1,280 pixels wide."""
    shutil.rmtree(PLACE, ignore_errors=True)
    shutil.copytree(PROJECT / "examples" / "vault", VAULT)
    with _running() as link, sync_playwright() as playwright:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        address = link.partition("/signin")[0]
        page.goto(link)
        page.wait_for_url(f"{address}/")
        for name, path in PAGES.items():
            page.goto(address + path)
            if name in OPENED:
                page.locator(OPENED[name]).first.click()
            _take(page, IMAGES / f"page-{name}.png")
        browser.close()


@contextmanager
def _running() -> Iterator[str]:
    """Run Catchment with a vault that changes and loses a folder; yields a link that signs in."""
    _catchment("up", "--detach")
    try:
        _catchment("sources", "add", "obsidian", str(VAULT), "--name", "vault", "--every", "15m", "--watch")
        _catchment("sync", "vault", "--wait")
        note = VAULT / "Home.md"
        note.write_text(note.read_text(encoding="utf-8") + "\nThe bees wintered well.\n", encoding="utf-8")
        (VAULT / "Inbox" / "Frames.md").write_text("# Frames\n\nOrder thirty frames.\n", encoding="utf-8")
        _catchment("sync", "vault", "--wait")
        for folder in ("Archive", "Daily", "Meetings", "Recipes", "Reading"):
            shutil.rmtree(VAULT / folder)
        _catchment("sync", "vault", "--wait")
        # The second report of the checks and of the planned runs comes after a minute.
        time.sleep(75)
        yield _catchment("web", "--no-browser").split()[-1]
    finally:
        _catchment("down")


def _catchment(*arguments: str) -> str:
    command = [str(Path(sys.executable).with_name("catchment")), *arguments]
    ran = subprocess.run(
        command,
        env={**os.environ, "CATCHMENT_HOME": str(PLACE / "home")},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    # A sync that holds deletions, and a check that finds trouble, end with a code of their own.
    if ran.returncode not in (0, 1, 5):
        raise SystemExit(f"catchment {' '.join(arguments)}: ended with {ran.returncode}")
    return ran.stdout


def _take(page: Page, file: Path) -> None:
    # The stream of live parts keeps the network busy.
    page.wait_for_timeout(500)
    page.screenshot(path=file, animations="disabled")


if __name__ == "__main__":
    main()
