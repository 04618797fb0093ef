"""Make a home folder with the installed command and keep it for later versions: `python -m tests.golden.make_home`.

Writes `home-VERSION.zip` (ledger, cache and sources.yaml) and `home-VERSION.json` (the facts that later versions must
find in it). The sources are folders below /srv/example, so that no path of this machine is stored. The folder must not
exist yet; the script creates it and removes it afterwards. Needs git. Takes half a minute. An existing archive is never
overwritten: later versions must open the archive that the older version made.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZIP_LZMA, ZipFile

from tests.golden.facts import facts_of

ROOT = Path("/srv/example")
GOLDEN = Path(__file__).parent
VAULT = GOLDEN.parents[1] / "examples" / "vault"
PROGRAM = Path(sys.executable).with_name("catchment")
KEPT = ("ledger.db", "cache.db", "sources.yaml", "copies")
LETTER = """\
From: {sender}
To: {recipient}
Subject: {subject}
Message-ID: <{id}@example.org>
{reference}Date: {date}
Content-Type: text/plain; charset=utf-8

{text}
"""
CODE = '''\
"""Levels of a gauge."""


class Gauge:
    """A gauge in a weir."""

    def level(self, reading: float) -> float:
        """Return the water level in metres."""
        return reading / 100
'''


def main() -> int:
    version = _run("--version").split()[-1].rpartition(".")[0]
    archive, facts = GOLDEN / f"home-{version}.zip", GOLDEN / f"home-{version}.json"
    if archive.exists() or ROOT.exists():
        sys.stderr.write(f"{archive if archive.exists() else ROOT} exists already; move it away first\n")
        return 2
    home = ROOT / "home"
    os.environ.update(CATCHMENT_HOME=str(home), LOGNAME="anna", TZ="UTC", COLUMNS="200")
    os.environ.pop("CATCHMENT_DATABASE_URL", None)
    ROOT.mkdir(parents=True)
    try:
        _fill(home)
        _run("ledger", "vacuum")
        facts.write_text(_in_lines(facts_of(home)), encoding="utf-8")
        with ZipFile(archive, "w", ZIP_LZMA) as kept:
            for file in sorted(home.rglob("*")):
                if file.is_file() and file.relative_to(home).parts[0] in KEPT:
                    kept.write(file, file.relative_to(home))
    finally:
        shutil.rmtree(ROOT)
    return 0


def _fill(home: Path) -> None:
    _write_files()
    _run("up", "--detach")
    try:
        _add("obsidian", "vault", "--every", "1d")
        retry = ("--set", "retry.attempts=2", "--set", "retry.backoff=immediate")
        _add("local_files", "papers", "--cron", "0 7 * * *", "--priority", "high", "--set", "limits.max_mb=0.1", *retry)
        _add("local_files", "archive")
        _add("local_files", "letters", "--for", "3650d")
        _add("github", "code", "--rrule", "FREQ=WEEKLY;BYDAY=MO")
        for name in ("vault", "papers", "archive", "letters", "code"):
            _sync(name)
        _note_in_quarantine("sent by the scanner")
        _change_files()
        _sync("papers")
        _sync("archive")
        _run("undo", str(_last_sync("papers")), "--reason", "wrong folder")
        (ROOT / "papers" / "later.md").write_text("# Later\n\nAdded after the undo: [[bees]].\n", encoding="utf-8")
        _sync("papers")
        _run("consent", "revoke", "letters", "--yes")
        _run("sources", "pause", "archive", "--reason", "disk in repair")
        _run("throttle", "set", "papers", "--at-once", "2", "--per-hour", "1000", "--reason", "slow disk")
        _run("throttle", "set", "local_files", "--profile", "moderate")
        _run("throttle", "set", "letters", "--blackout", "00:00-12:00", "--blackout", "12:00-00:00")
        _run("throttle", "pause", "code", "--reason", "release week")
    finally:
        _run("down")
    # A watched source is synced when the watcher starts: added earlier, it would have made the number of syncs vary.
    _add("local_files", "inbox", "--watch", "--debounce", "2")


def _write_files() -> None:
    for folder in ("Maps", "People", "Templates", "Reading", ".obsidian"):
        shutil.copytree(VAULT / folder, ROOT / "vault" / folder)
    papers, archive, letters, code, inbox = (ROOT / name for name in ("papers", "archive", "letters", "code", "inbox"))
    for place in (papers, archive, letters, code, inbox):
        place.mkdir()
    (papers / "bees.md").write_text("# Bees\n\nThe queen excluder stays in until August. #bees\n", encoding="utf-8")
    (papers / "plan.txt").write_text("Plan of the weir, see https://example.org/weir\n", encoding="utf-8")
    (papers / "table.csv").write_text("month,level\nMay,1.20\nJune,0.95\n", encoding="utf-8")
    (papers / "login.md").write_text("The token is ghp_" + "a1B2" * 9 + " and must be masked.\n", encoding="utf-8")
    (papers / "cut.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\n")
    (papers / "large.txt").write_text("too large\n" * 20_000, encoding="utf-8")
    ada, grace = "Ada <ada@example.org>", "Grace <grace@example.org>"
    first = LETTER.format(
        sender=ada, recipient=grace, subject="Weir", id="1", reference="",
        date="Mon, 4 May 2026 09:00:00 +0000", text="Is the weir open?",
    )  # fmt: skip
    answer = LETTER.format(
        sender=grace, recipient=ada, subject="Re: Weir", id="2", reference="In-Reply-To: <1@example.org>\n",
        date="Mon, 4 May 2026 10:00:00 +0000", text="It is.\n\n> Is the weir open?",
    )  # fmt: skip
    (papers / "first.eml").write_text(first, encoding="utf-8")
    (papers / "answer.eml").write_text(answer, encoding="utf-8")
    for number in range(20):
        (archive / f"sheet {number}.txt").write_text(f"Sheet {number} of the archive\n", encoding="utf-8")
    (letters / "aunt.txt").write_text("A private letter about the orchard\n", encoding="utf-8")
    (code / "gauge.py").write_text(CODE, encoding="utf-8")
    (code / "README.md").write_text("# Weir\n\nReads a gauge.\n", encoding="utf-8")
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "Read the gauge")):
        subprocess.run(["git", *author, *arguments], cwd=code, check=True)


def _change_files() -> None:
    papers, archive = ROOT / "papers", ROOT / "archive"
    (papers / "bees.md").write_text("# Bees\n\nThe excluder was taken out in July. #bees\n", encoding="utf-8")
    (papers / "plan.txt").unlink()
    (papers / "new.md").write_text("# New\n\nA page about [[bees]].\n", encoding="utf-8")
    (papers / "moved").mkdir()
    (papers / "table.csv").rename(papers / "moved" / "table.csv")
    for number in range(15):
        (archive / f"sheet {number}.txt").unlink()


def _add(kind: str, name: str, *options: str) -> None:
    _run("sources", "add", kind, str(ROOT / name), "--name", name, *options)


def _sync(name: str) -> None:
    _run("sync", name, "--wait")


def _last_sync(name: str) -> int:
    number: int = json.loads(_run("sources", "show", name, "--json"))["syncs"][0]["id"]
    return number


def _note_in_quarantine(text: str) -> None:
    [entry] = json.loads(_run("quarantine", "list", "--json"))
    _run("quarantine", "note", str(entry["job"]), text)


def _run(*arguments: str) -> str:
    done = subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"catchment {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def _in_lines(facts: dict[str, Any]) -> str:
    """JSON with one line for each document and each event."""
    parts = []
    for key, value in facts.items():
        lines = _list_in_lines(value) if isinstance(value, list) else json.dumps(value, ensure_ascii=False)
        parts.append(f"{json.dumps(key)}: {lines}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _list_in_lines(values: list[Any]) -> str:
    return "[\n" + ",\n".join(json.dumps(value, ensure_ascii=False) for value in values) + "\n]"


if __name__ == "__main__":
    sys.exit(main())
