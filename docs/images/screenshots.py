"""Take the pictures of commands, of the page and of the Prefect UI, with the example vault and a few things that go wrong.

make pictures
"""

from __future__ import annotations

import html
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from catchment.content.parsing import SHORT
from catchment.runtime.home import Home
from catchment.runtime.worker_status import WorkerStatus
from deployments.server.client import api
from deployments.server.running import Running, running

IMAGES = Path(__file__).parent
PROJECT = IMAGES.parents[1]
PLACE = Path(tempfile.gettempdir()) / "catchment"
"""Its path is on one of the pictures."""
VAULT = PLACE / "Vault"
HOME = Home(PLACE / "home")
OPENED = {"document": ".hit a", "sync": "#runs tr:has-text('updated') a"}
"""Pages that are reached by the first such link."""
BEFORE = {
    "search": "/search?q=how+do+bees+survive+the+winter",
    "document": "/search?q=varroa+plan",
    "tasks": "/search?q=type:task+is:open",
}
"""Pages that are taken before anything goes wrong."""
PAGES = {
    "trouble": "/trouble",
    "deletions": "/trouble/deletions/vault",
    "source": "/sources/vault",
    "syncs": "/syncs",
    "sync": "/syncs",
    "health": "/health",
}
COMMANDS = {
    "search": ("search leak broom handle --limit 1", "search when are motors forbidden --limit 1"),
    "assistant": ("mcp install",),
}
"""Commands that are shown as in a terminal, by the name of their picture."""
TERMINAL = """<body style="margin:0;background:#1e1e22;color:#ddd"><pre id="out" style="display:inline-block;margin:0;
padding:16px 20px;font:15px/1.45 'DejaVu Sans Mono',monospace;min-width:44em">{}</pre>"""
COLOURS = {"1": "color:#fff;font-weight:bold", "2": "color:#8a8a8a", "33": "color:#e9c46a"}
"""Styles by the code of a colour on a terminal."""


def main() -> None:
    """Fill a home, and take each page, light, 1,280 pixels wide."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("Chromium is missing; on Debian: apt install chromium")
    shutil.rmtree(PLACE, ignore_errors=True)
    shutil.copytree(PROJECT / "examples" / "vault", VAULT)
    with _running() as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        address = link.partition("/signin")[0]
        page.goto(link)
        page.wait_for_url(f"{address}/")
        _take_pages(page, address, BEFORE)
        for name, lines in COMMANDS.items():
            _take_terminal(browser.new_page(), lines, IMAGES / f"{name}.png")
        _go_wrong()
        _take_pages(page, address, PAGES)
        _take_prefect(browser)
        browser.close()


def _take_prefect(browser: Browser) -> None:
    """Take a sync, its failed item, an item that was retried, a step after a crash, the sources, and the health."""
    slow, many = PLACE / "Slow", PLACE / "Many"
    slow.mkdir()
    (slow / "Long.md").write_text("word " * 12_000_000, encoding="utf-8")
    tries = ("--set", "limits.stall_seconds=0.05", "--set", "retry.backoff=immediate", "--set", "retry.attempts=3")
    _catchment("sources", "add", "local_files", str(slow), "--name", "slow", *tries)
    _catchment("sync", "slow", "--wait")
    _write_long_notes(many, 1_500)
    _catchment("sources", "add", "local_files", str(many), "--name", "many")
    _catchment("sync", "many")
    _kill_runner_after_a_batch()
    _catchment("sync", "many", "--wait")
    _have_sources_in_trouble()
    server = running(HOME)
    assert server is not None
    page = browser.new_page(viewport={"width": 1180, "height": 610})
    page.goto(f"{server.url}/login")
    page.locator("input[type=password]").fill(server.login)
    page.keyboard.press("Enter")
    page.get_by_text("Flow Runs").first.wait_for()
    item = _first(server, "task_runs", {"name": {"like_": "item %: parse_error"}})
    retried = _first(server, "task_runs", {"name": {"like_": "item %: timeout"}})
    cached = _first(server, "task_runs", {"state": {"name": {"any_": ["Cached"]}}})
    health = _first(server, "artifacts", {"key": {"any_": ["health"]}})
    for name, path, text in (
        ("ui", f"runs/flow-run/{item['flow_run_id']}", "INFO"),
        ("item", f"runs/task-run/{item['id']}", "ERROR"),
        ("retried", f"runs/task-run/{retried['id']}", "Run Count"),
        ("cached", f"runs/task-run/{cached['id']}", "Cache Key"),
        ("deployments", "deployments", "held"),
        ("health", f"artifacts/artifact/{health['id']}", "verdict"),
    ):
        page.goto(f"{server.url}/v2/{path}")
        page.get_by_text(text, exact=True).first.wait_for()
        # The graph of a run is drawn after its text.
        page.wait_for_timeout(2_000)
        page.screenshot(path=IMAGES / f"prefect-{name}.png", animations="disabled")


def _write_long_notes(folder: Path, count: int) -> None:
    """Write notes that are kept in the cache while a sync runs; shorter texts are read again."""
    folder.mkdir()
    for number in range(count):
        (folder / f"Note {number}.md").write_text(
            f"# Note {number}\n\n" + f"word{number} " * (SHORT // 4), encoding="utf-8"
        )


def _have_sources_in_trouble() -> None:
    """Pause a source, let another one fail once, and a third one until it is held."""
    _catchment("sources", "pause", "slow", "--reason", "for the picture")
    for name, syncs in {"archive": 1, "usb-disk": 5}.items():
        folder = PLACE / name
        folder.mkdir()
        _catchment("sources", "add", "local_files", str(folder), "--name", name, "--every", "1h")
        _catchment("sync", name, "--wait")
        folder.rmdir()
        for _ in range(syncs):
            _catchment("sync", name, "--wait")
    # The checks report what they found within a minute.
    time.sleep(75)


def _kill_runner_after_a_batch() -> None:
    """Kill the runner when it has stored the result of a batch, before the batch is delivered."""
    results = HOME.prefect / "storage"
    before = set(results.glob("*"))
    while set(results.glob("*")) <= before:
        time.sleep(0.005)
    status = WorkerStatus.read(HOME)
    assert status is not None
    assert status.runner is not None
    os.kill(int(status.runner.split(":")[1]), signal.SIGKILL)


def _first(server: Running, what: str, which: object) -> dict[str, str]:
    """Return an object that matches a filter, once the server knows it. Raises SystemExit after 30 s."""
    with api(server) as client:
        for _ in range(150):
            if found := client.post(f"/{what}/filter", json={what: which, "limit": 1}).json():
                first: dict[str, str] = found[0]
                return first
            time.sleep(0.2)
    raise SystemExit(f"no {what} with {which}; repeat `make pictures`")


@contextmanager
def _running() -> Iterator[str]:
    """Run Catchment with a vault that is searched by meaning; yields a link that signs in."""
    _catchment("up", "--detach")
    try:
        _catchment("sources", "add", "obsidian", str(VAULT), "--name", "vault", "--every", "15m", "--watch")
        _catchment("sync", "vault", "--wait")
        for folder in (".claude", ".cursor"):
            (PLACE / folder).mkdir()
        while (found := json.loads(_catchment("search", "bees", "--explain", "--json")))["incomplete"] or found[
            "meaning_off"
        ]:
            time.sleep(1)
        yield _catchment("web", "--no-browser").split()[-1]
    finally:
        _catchment("down")


def _go_wrong() -> None:
    """Change a note, and lose folders."""
    note = VAULT / "Home.md"
    note.write_text(note.read_text(encoding="utf-8") + "\nThe bees wintered well.\n", encoding="utf-8")
    (VAULT / "Inbox" / "Frames.md").write_text("# Frames\n\nOrder thirty frames.\n", encoding="utf-8")
    _catchment("sync", "vault", "--wait")
    for folder in ("Archive", "Daily", "Meetings", "Recipes", "Reading"):
        shutil.rmtree(VAULT / folder)
    _catchment("sync", "vault", "--wait")
    # The second report of the checks and of the planned runs comes after a minute.
    time.sleep(75)


def _catchment(*arguments: str) -> str:
    command = [str(Path(sys.executable).with_name("catchment")), *arguments]
    ran = subprocess.run(
        command,
        env={**os.environ, "CATCHMENT_HOME": str(HOME.path)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    # A sync that holds deletions or fails, and a check that finds trouble, end with a code of their own.
    if ran.returncode not in (0, 1, 5, 10):
        raise SystemExit(f"catchment {' '.join(arguments)}: ended with {ran.returncode}")
    return ran.stdout


def _take_pages(page: Page, address: str, paths: Mapping[str, str]) -> None:
    for name, path in paths.items():
        page.goto(address + path)
        if name in OPENED:
            page.locator(OPENED[name]).first.click()
        # The stream of live parts keeps the network busy.
        page.wait_for_timeout(500)
        while page.get_by_text("try again in a moment").count():
            page.wait_for_timeout(1_000)
            page.reload()
        page.screenshot(path=IMAGES / f"page-{name}.png", animations="disabled")


def _take_terminal(page: Page, lines: Iterable[str], file: Path) -> None:
    """Take a picture of commands with their output in colours."""
    shown = "\n".join(f'<b style="color:#5c9">$</b> catchment {line}\n{_in_colours(line)}' for line in lines)
    page.set_content(TERMINAL.format(shown))
    page.locator("#out").screenshot(path=file)


def _in_colours(line: str) -> str:
    """Return the output of a command on a terminal, as HTML."""
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).with_name("catchment")), *line.split()]
    variables = {
        **os.environ,
        "CATCHMENT_HOME": str(PLACE / "home"),
        "HOME": str(PLACE),
        "COLUMNS": "90",
        "TERM": "xterm",
    }
    subprocess.run(command, env=variables, stdin=theirs, stdout=theirs, stderr=theirs, check=True)
    os.close(theirs)
    text = ""
    try:
        while part := os.read(ours, 65_536):
            text += part.decode()
    except OSError:  # the end, on Linux
        os.close(ours)
    text = html.escape(text.replace("\r\n", "\n"))
    styled = re.sub(r"\x1b\[0m", "</span>", text)
    return re.sub(r"\x1b\[([\d;]+)m", lambda code: f'<span style="{COLOURS.get(code[1], "color:#ddd")}">', styled)


if __name__ == "__main__":
    main()
