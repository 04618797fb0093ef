"""Hazards of programs that push documents, and of packages that bring a kind of source."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from tests.acceptance.person import Person, upright
from tests.hazards.catchment import Watched, held
from tests.hazards.model import Area, Hazard, Truth, Verdict, judge
from tests.outside_packages import SHELF, install
from tests.waiting import until

_MANY = 40
_BESIDE = "named; other syncs go on"
_LISTING = "books, before = self._books(), known.within"
_MOST_SECONDS = 55.0
"""Time for a sync of a folder with some files on a busy machine; a runner that does not react is killed after 60 s."""


@dataclass(frozen=True)
class Pushing(Watched):
    """A source and a program with its token."""

    token: str

    def ask(self, method: str, path: str = "", **content: object) -> httpx.Response:
        """Send a request of the program, again while the page is being restarted."""

        def answer() -> httpx.Response | None:
            port = (self.person.home / "web-port").read_text().strip()
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/jsonl"}
            if "json" in content:
                del headers["Content-Type"]
            with suppress(httpx.TransportError):
                return httpx.request(
                    method,
                    f"http://127.0.0.1:{port}/api/v1/documents{path}",
                    headers=headers,
                    trust_env=False,
                    timeout=60,
                    **content,  # type: ignore[arg-type]
                )
            return None

        response = until(answer, lambda response: response is not None and response.status_code != 429)
        assert response is not None
        return response

    def push(self, key: str, text: str) -> int:
        return self.ask("PUT", f"/{key}", json={"text": text}).status_code

    def push_all(self, words: str) -> httpx.Response:
        """Push many documents in one request."""
        lines = (json.dumps({"key": key, "text": text}) for key, text in self.truth(words).items())
        return self.ask("POST", content="\n".join(lines))

    def truth(self, words: str) -> dict[str, str]:
        return {f"n{number}": f"{self.name} {words} {number}" for number in range(_MANY)}

    def seen(self, truth: Truth, noted: Verdict | None = None) -> Verdict:
        """Sync, and compare the library with these documents."""
        verdict = noted or Verdict()
        verdict.expect(self.sync() == 0, "the sync failed")
        has = held(self.person, self.name, lambda locator, _title: locator.rpartition("/")[2])
        verdict = judge(truth, has, verdict)
        verdict.expect(self.person("prove", self.name).code == 0, "a proof finds differences")
        return verdict


@dataclass(frozen=True)
class Door:
    """A user with a running system, and a folder where packages are installed."""

    person: Person
    site: Path

    def pushing(self, name: str) -> Pushing:
        """Add a source with many documents."""
        self.person("add", "pushed", name, "--name", name).ok()
        made = Pushing(name, self.person, self.person("tokens", "add", name, "--source", name).ok().out.strip())
        assert made.push_all("first").status_code == 202
        assert made.sync() == 0
        return made

    def rogue(self, name: str, acts: str, *how: str) -> Rogue:
        """Install a package that acts so whenever it lists, restart, and add a source of it and a folder."""
        folder = self.person.home.parent / f"beside-{name}"
        folder.mkdir()
        (folder / "note.txt").write_text("the note")
        books = self.person.home.parent / f"{name}.txt"
        books.write_text("Walden\n")
        self.write_rogue(acts)
        self.person("down").ok()
        self.person("up", "--detach").ok()
        self.person("add", "local_files", folder, "--name", folder.name).ok()
        self.person("add", "rogue", books, "--name", name, *how).ok()
        return Rogue(name, self.person, self, folder)

    def write_rogue(self, acts: str) -> None:
        """Write a package whose listings act so first."""
        code = SHELF.replace('kind = "shelf"', 'kind = "rogue"').replace(
            "fetch_in_parser = False", "fetch_in_parser = True"
        )
        code = code.replace(_LISTING, f"{acts}; {_LISTING}" if acts else _LISTING)
        install(
            self.site,
            f"import ctypes, os, time\n{code}",
            package="catchment-rogue",
            module="rogue_shelf",
            points=["rogue = rogue_shelf:Shelf"],
        )


@contextmanager
def door(folder: Path) -> Iterator[Door]:
    """Yield a user with a running system."""
    site = folder / "site"
    site.mkdir(parents=True)
    install(site)
    with upright(Person(folder / "home", variables={"PYTHONPATH": str(site)})) as person:
        yield Door(person, site)


def _end(door: Door, module: str) -> None:
    """Kill the process of the page or of a running sync."""
    supervisor = psutil.Process(door.person.running.server_pid).parent()
    assert supervisor is not None
    for process in supervisor.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if module in process.cmdline():
                os.kill(process.pid, signal.SIGKILL)


def page_killed_during_pushes(door: Door) -> Verdict:
    clips = door.pushing("killed")
    stop = threading.Timer(0.05, _end, [door, "web"])
    stop.start()
    for key, text in clips.truth("other").items():
        clips.push(key, text)
    stop.join()
    return clips.seen(clips.truth("other"))


def one_key_from_four_programs(door: Door) -> Verdict:
    clips = door.pushing("four")
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda number: clips.push("n0", f"four by {number}"), range(16)))
    verdict = Verdict()
    verdict.expect(set(codes) <= {200, 202}, f"answers: {sorted(set(codes))}")
    return clips.seen({**clips.truth("first"), "n0": "four by"}, verdict)


def documents_pushed_during_syncs(door: Door) -> Verdict:
    clips = door.pushing("during")
    for words in ("second", "third", "last"):
        syncing = threading.Thread(target=clips.sync)
        syncing.start()
        for key, text in clips.truth(words).items():
            clips.push(key, text)
        syncing.join()
    return clips.seen(clips.truth("last"))


def token_revoked_between_pushes(door: Door) -> Verdict:
    clips = door.pushing("revoked")
    door.person("tokens", "revoke", clips.name).ok()
    verdict = Verdict()
    verdict.expect(clips.push("n0", "by a thief") == 401, "a revoked token pushes")
    verdict.expect(clips.ask("DELETE", "/n1").status_code == 401, "a revoked token deletes")
    return clips.seen(clips.truth("first"), verdict)


def token_of_another_source(door: Door) -> Verdict:
    clips, other = door.pushing("mine"), door.pushing("theirs")
    thief = Pushing(clips.name, door.person, other.token)
    verdict = Verdict()
    forged = thief.ask("PUT", "/n0", json={"text": "forged", "source": "mine"}).status_code
    verdict.expect(forged in (400, 403, 404, 422), f"a forged source: {forged}")
    thief.ask("DELETE", "/n1")
    verdict.wrong += clips.seen(clips.truth("first")).wrong
    return clips.seen(clips.truth("first"), verdict)


def broken_lines_in_a_batch(door: Door) -> Verdict:
    clips = door.pushing("lines")
    lines = [
        '{"key": "n0", "text": "new"}',
        "{no JSON",
        '{"key": "../n1", "text": "x"}',
        '{"key": "n2", "text": "new"}',
    ]
    answer = clips.ask("POST", content="\n".join(lines))
    verdict = Verdict()
    refused = [number for number, result in enumerate(answer.json()["results"]) if "error" in result]
    verdict.expect((answer.status_code, refused) == (422, [1, 2]), f"refused lines: {answer.status_code}, {refused}")
    return clips.seen({**clips.truth("first"), "n0": "new", "n2": "new"}, verdict)


def program_deletes_everything(door: Door) -> Verdict:
    clips = door.pushing("deletes")
    # Otherwise a sync starts while the program deletes, and applies the first ten.
    door.person("sources", "pause", clips.name).ok()
    for key in clips.truth("first"):
        clips.ask("DELETE", f"/{key}")
    door.person("sources", "resume", clips.name).ok()
    clips.sync()
    verdict = Verdict()
    verdict.expect(door.person("deletions", "list", "--json").ok().json != [], "no deletion is held")
    has = held(door.person, clips.name, lambda locator, _title: locator.rpartition("/")[2])
    return judge(clips.truth("first"), has, verdict)


def folder_of_pushes_is_moved_away(door: Door) -> Verdict:
    clips = door.pushing("moved")
    folder = door.person.home / "pushed" / "moved"
    folder.rename(folder.with_name("elsewhere"))
    clips.sync()
    has = held(door.person, clips.name, lambda locator, _title: locator.rpartition("/")[2])
    verdict = judge(clips.truth("first"), has)
    folder.with_name("elsewhere").rename(folder)
    clips.recovers(verdict)
    return clips.seen(clips.truth("first"), verdict)


def newer_pushes_outlive_a_restore(door: Door) -> Verdict:
    clips = door.pushing("restored")
    file = door.person.home.parent / "backup.db"
    door.person("backup", file).ok()
    clips.push("n0", "newer")
    clips.ask("DELETE", "/n1")
    clips.sync()
    door.person("down").ok()
    verdict = Verdict()
    verdict.expect(door.person("restore", file).code == 0, "the restore failed")
    door.person("up", "--detach").ok()
    return clips.seen({**clips.truth("first"), "n0": "newer"}, verdict)


def package_is_uninstalled_and_comes_back(door: Door) -> Verdict:
    books = door.person.home.parent / "books.txt"
    books.write_text("Walden\nMiddlemarch\n")
    shelf = Watched("shelf", door.person)
    door.person("add", "shelf", books, "--name", "shelf").ok()
    verdict, truth = Verdict(), {"Walden": "Walden", "Middlemarch": "Middlemarch"}
    verdict.expect(shelf.sync() == 0, "the first sync failed")
    module = door.site / "shelf_of_books.py"
    module.rename(door.site / "away")
    door.person("down").ok()
    door.person("up", "--detach").ok()
    verdict.expect(shelf.sync() != 0, "a sync without its package succeeds")
    verdict.expect("shelf: " in door.person("status").out, "status does not name the package")
    verdict.wrong += judge(truth, held(door.person, "shelf", lambda locator, _title: locator)).wrong
    (door.site / "away").rename(module)
    shutil.rmtree(door.site / "__pycache__", ignore_errors=True)
    door.person("down").ok()
    door.person("up", "--detach").ok()
    books.write_text("Walden\nMiddlemarch\nOrlando\n")
    shelf.recovers(verdict)
    return judge({**truth, "Orlando": "Orlando"}, held(door.person, "shelf", lambda locator, _title: locator), verdict)


@dataclass(frozen=True)
class Rogue(Watched):
    """A source of a package that misbehaves while it lists, and a folder beside it."""

    door: Door
    folder: Path

    def misbehaves(self, reason: str, verdict: Verdict) -> None:
        """Sync it, and meanwhile the folder again and again, until `status` names it with the reason."""
        self.person("sync", self.name).ok()
        deadline, text, number = time.monotonic() + 300, "", 0
        while not _names(text := self.person("status").out, self.name, reason) and time.monotonic() < deadline:
            number += 1
            (self.folder / "note.txt").write_text(f"the note {number}")
            began = time.monotonic()
            verdict.expect(self.person("sync", self.folder.name, "--wait").code == 0, "a sync of the folder failed")
            took = time.monotonic() - began
            verdict.expect(took < _MOST_SECONDS, f"a sync of the folder took {took:.0f} s")
        verdict.expect(_names(text, self.name, reason), f"status does not name the source with: {reason}")
        others = {run["state_name"] for run in self.person.runs_of(self.folder.name)} - {"Scheduled", "Completed"}
        verdict.expect(not others, f"runs of the folder: {sorted(others)}")

    def seen(self, verdict: Verdict) -> Verdict:
        """Mend the package, sync its source, and compare the library with the list of books and the folder."""
        self.door.write_rogue("")
        self.recovers(verdict)
        ours = held(self.person, self.folder.name, lambda locator, _title: locator)
        verdict.wrong += judge({"note.txt": (self.folder / "note.txt").read_text()}, ours).wrong
        return judge({"Walden": "Walden"}, held(self.person, self.name, lambda locator, _title: locator), verdict)


def _names(status: str, source: str, reason: str) -> bool:
    return any(source in line and reason in line for line in status.splitlines())


def package_never_returns(door: Door) -> Verdict:
    verdict = Verdict()
    pids = "print(os.getpid(), file=open(__file__ + '.pids', 'a'))"
    rogue = door.rogue("never", f"{pids}; time.sleep(1e6)", "--set", "limits.stall_seconds=2")
    rogue.misbehaves("no progress", verdict)
    rogue.seen(verdict)
    stuck = {int(pid) for pid in (door.site / "rogue_shelf.py.pids").read_text().split()}
    until(lambda: not any(map(psutil.pid_exists, stuck)), seconds=60, must=False)
    verdict.expect(not any(map(psutil.pid_exists, stuck)), "a process with its thread lives on")
    return verdict


def package_ends_the_process(door: Door) -> Verdict:
    verdict = Verdict()
    rogue = door.rogue("ends", "time.sleep(4); os._exit(3)")
    rogue.misbehaves("exited with code 3", verdict)
    return rogue.seen(verdict)


def package_lets_no_other_thread_run(door: Door) -> Verdict:
    verdict = Verdict()
    rogue = door.rogue("alone", "ctypes.PyDLL(None).pause()")
    rogue.misbehaves("reported nothing for 60 s", verdict)
    return rogue.seen(verdict)


def package_fills_the_memory(door: Door) -> Verdict:
    verdict = Verdict()
    rogue = door.rogue("fills", "full = [bytearray(50_000_000) for _ in range(45)]; time.sleep(1e6)")
    rogue.misbehaves("MB allowed", verdict)
    return rogue.seen(verdict)


def _hazard(name: str, expected: str, happens: Callable[[Door], Verdict]) -> Hazard[Door]:
    return Hazard(name, expected, happens)


AREA = Area(
    "programs",
    door,
    [
        _hazard("the page is killed during pushes", "each new text once", page_killed_during_pushes),
        _hazard("four programs push one key", "one document", one_key_from_four_programs),
        _hazard("documents are pushed during syncs", "the last texts", documents_pushed_during_syncs),
        _hazard("a token is revoked", "no further change", token_revoked_between_pushes),
        _hazard("a token of another source", "no change", token_of_another_source),
        _hazard("a batch with broken lines", "these lines are named, the others stored", broken_lines_in_a_batch),
        _hazard("a program deletes everything", "deletions held for a decision", program_deletes_everything),
        _hazard("the folder of the pushes is moved away", "no deletion", folder_of_pushes_is_moved_away),
        _hazard("a restore after newer pushes", "the newer text, and what was deleted", newer_pushes_outlive_a_restore),
        _hazard("a package is uninstalled and comes back", "no deletion", package_is_uninstalled_and_comes_back),
        _hazard("a package never returns", _BESIDE, package_never_returns),
        _hazard("a package ends the process", _BESIDE, package_ends_the_process),
        _hazard("a package lets no other thread run", _BESIDE, package_lets_no_other_thread_run),
        _hazard("a package fills the memory", _BESIDE, package_fills_the_memory),
    ],
)
