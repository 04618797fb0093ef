"""Bundles: odd, forged and rewritten ones, the key that signed one, and exports that are complete or absent."""

from __future__ import annotations

import ast
import gzip
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tarfile
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from catchment.audit import chain, comparison, export, verify
from catchment.audit.acts import acts
from catchment.audit.comparison import KeyOwner, compare
from catchment.audit.signing import public_key, rotate
from catchment.errors import BadInput, NotFound, Refused
from catchment.ledger import Ledger
from catchment.ledger.db.history_chain import link
from catchment.pacing.operator_rules import Rule
from catchment.runtime.home import Home
from tests.ledger import forged_bundles
from tests.ledger.world import World, note, notes

FORGED_LINE = "\x1b[2K\rintact: 9 of 9 rows\nintact: \u202e\u200b\u00ad\U000e0041\u3164 x"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


@pytest.fixture
def audited(sqlite_world: World, home: Home) -> World:
    """A ledger with jobs, documents, a rule and a reason that tries to write to the terminal."""
    world = sqlite_world
    world.ingest(*notes(3))
    world.ledger.history.note("backed up", f"operator:{FORGED_LINE}", FORGED_LINE)
    world.ledger.throttles.put("source:notes", Rule(per_hour=5), "operator:anna", "slow")
    assert chain.verify(home, world.ledger, sign=True).problems == ()
    return world


@pytest.fixture
def bundle(audited: World, home: Home, tmp_path: Path) -> Path:
    return export.export(home, audited.ledger, tmp_path / "bundle.tar").file


@pytest.fixture
def unpacked(bundle: Path) -> Path:
    folder = bundle.with_suffix("")
    folder.mkdir()
    comparison.unpack(bundle, folder)
    return folder


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run our verifier over a folder."""
    command = [sys.executable, "-I", verify.__file__, str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.full
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.long), 7])
def test_verifier_survives_every_forged_and_signed_bundle(unpacked: Path, every: int) -> None:
    command = [sys.executable, "-m", "tests.ledger.forged_bundles", str(unpacked), str(every)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *wrong, numbers = done.stdout.splitlines()
    assert wrong == []
    # A signer can write any text into a reason; the verifier checks everything else.
    found = json.loads(numbers)
    assert found["broken"] > 1_000 / every
    assert found["intact"] > 20 / every


def test_verifier_needs_only_python_3_9() -> None:
    tree = ast.parse(Path(verify.__file__).read_text(encoding="utf-8"), feature_version=(3, 9))
    names = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_visible_text_is_printable_and_escaped_once() -> None:
    for number in range(sys.maxunicode + 1):
        shown = verify.visible(chr(number))
        assert shown.isprintable()
        assert verify.visible(shown) == shown
        assert shown in (chr(number), chr(number).encode("unicode_escape").decode())
    assert verify.visible("a\x1b\u202e\u200b\u3164é") == r"a\x1b\u202e\u200b\u3164é"


def test_no_reason_can_write_a_line_of_the_verifier(unpacked: Path) -> None:
    done = run(unpacked, "--item", "1")
    assert done.stdout.count("intact:") == 1
    lines = [json.loads(line) for line in (unpacked / "history.jsonl").read_text().splitlines()]
    next(line for line in lines if line["event"] == "backed up")["item_id"] = 1
    (unpacked / "history.jsonl").write_text("".join(json.dumps(line, sort_keys=True) + "\n" for line in lines))
    forged_bundles.sign(unpacked)
    done = run(unpacked, "--item", "1")
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if line.startswith("intact")] == done.stdout.splitlines()[:1]
    assert r"by operator:\x1b[2K\rintact: 9 of 9 rows\nintact: \u202e\u200b\xad" in done.stdout
    assert all(line.isprintable() for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda folder: (folder / "jobs.jsonl").unlink(), "jobs.jsonl: is missing"),
        (lambda folder: (folder / "a\x1b\nintact").touch(), r"a\x1b\nintact: does not belong to a bundle"),
        (lambda folder: (folder / "__pycache__").mkdir(), "__pycache__: does not belong to a bundle"),
        (lambda folder: _replace(folder / "jobs.jsonl", os.mkfifo), "jobs.jsonl: not an ordinary file"),
        (lambda folder: _replace(folder / "jobs.jsonl", os.mkdir), "jobs.jsonl: not an ordinary file"),
        (lambda folder: _replace(folder / "proof.json", _link_to_zeros), "proof.json: not an ordinary file"),
        (lambda folder: os.truncate(folder / "checkpoint.txt", 1 << 40), "the checkpoint has no signature"),
        (lambda folder: os.truncate(folder / "manifest.json", 1 << 40), "manifest.json: a line is too long"),
    ],
)
def test_odd_folder_is_broken_in_one_line(unpacked: Path, spoil: Callable[[Path], None], problem: str) -> None:
    spoil(unpacked)
    done = run(unpacked)
    assert (done.returncode, done.stdout, done.stderr) == (1, f"broken: {problem}\n", "")


def _replace(file: Path, make: Callable[[Path], None]) -> None:
    file.unlink()
    make(file)


def _link_to_zeros(file: Path) -> None:
    file.symlink_to("/dev/zero")


def test_number_of_a_job_costs_no_memory(home: Home) -> None:
    tracemalloc.start()
    replay = verify.Replay()
    rows = [(1, 0, "a", "pending", 1, 1, job, 1, 0, None) for job in (10**12, 10**30, -(10**12), 2**63)]
    assert replay.follow(rows) == []
    assert replay.objection(10**15, "pending") == "job 1000000000000000 is pending, and unknown by its history"
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("job_id", value) for value in (10**12, -1, 2**63 - 1, "text", 1.5, b"\0")),
        *(("at", value) for value in ("text", 1.5, b"\0", -(2**63))),
        *(("reason", value) for value in (b"\xff", 7)),
        *(("hash", value) for value in ("text", 5)),
    ],
)
def test_odd_value_in_the_ledger_is_a_finding(audited: World, home: Home, column: str, value: object) -> None:
    with closing(sqlite3.connect(audited.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.executescript("DROP TRIGGER history_no_update")
        connection.execute(f"UPDATE history SET {column} = ? WHERE id = 3", (value,))
    tracemalloc.start()
    problems = chain.verify(home, audited.ledger).problems
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
    assert "Row 3 of the history was changed" in problems


def test_findings_are_few_however_many_rows_are_wrong(audited: World, home: Home) -> None:
    audited.ingest(*notes(20, 5))
    with closing(sqlite3.connect(audited.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.executescript("DROP TRIGGER history_no_update")
        connection.execute("UPDATE history SET attempt = 9")
    assert len(chain.verify(home, audited.ledger).problems) == 20


def test_flat_lines_are_those_of_the_standard_library() -> None:
    for number in (*range(0xD800), *range(0xE000, 0x11000), 0x1F600, sys.maxunicode):
        value = {"b": chr(number), "a": None, "c": 2**62, chr(number): -1, "d": True}
        expected = json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        assert export.flat(value) == expected


def test_rewritten_history_is_not_exported(audited: World, home: Home, tmp_path: Path) -> None:
    """An attacker who can write the ledger but not read the key can make new hashes; an export would sign them."""
    with closing(sqlite3.connect(audited.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.executescript("DROP TRIGGER history_no_update")
        connection.execute("UPDATE history SET reason = 'other' WHERE id = 1")
        previous = b""
        for *row, _ in connection.execute("SELECT * FROM history ORDER BY id").fetchall():
            previous = link(previous, row)
            connection.execute("UPDATE history SET hash = ? WHERE id = ?", (previous, row[0]))
        connection.execute("UPDATE chain SET hash = ?", (previous,))
    before = home.checkpoints.read_bytes()
    with pytest.raises(Refused, match=r"audit: the first \d+ rows of the history are not those that were signed; see"):
        export.export(home, audited.ledger, tmp_path / "bundle.tar")
    assert home.checkpoints.read_bytes() == before
    assert not (tmp_path / "bundle.tar").exists()


def test_compare_says_whose_key_signed_the_bundle(audited: World, home: Home, bundle: Path, tmp_path: Path) -> None:
    first = public_key(home).key
    found = compare(home, audited.ledger, bundle)
    assert (found.key, found.owner) == (first, KeyOwner.HOME)
    rotate(home)
    assert compare(home, audited.ledger, bundle).owner is KeyOwner.FORMER
    assert compare(home, audited.ledger, bundle, first).owner is KeyOwner.NAMED
    with pytest.raises(Refused, match=rf"bundle\.tar: signed with another key, {re.escape(first)}"):
        compare(home, audited.ledger, bundle, public_key(home).key)
    stranger = Home(tmp_path / "stranger").make()
    foreign = export.export(stranger, audited.ledger, tmp_path / "foreign.tar")
    with pytest.raises(Refused, match=r"which is not a key of this home; .* pass --key KEY"):
        compare(home, audited.ledger, foreign.file)
    assert compare(home, audited.ledger, foreign.file, public_key(stranger).key).owner is KeyOwner.NAMED


def test_key_in_broken_checkpoints_is_no_former_key(audited: World, home: Home, tmp_path: Path) -> None:
    stranger = Home(tmp_path / "stranger").make()
    foreign = export.export(stranger, audited.ledger, tmp_path / "foreign.tar")
    home.checkpoints.write_bytes(home.checkpoints.read_bytes() + stranger.checkpoints.read_bytes())
    with pytest.raises(Refused, match="which is not a key of this home"):
        compare(home, audited.ledger, foreign.file)


def _entry(name: str, content: bytes = b"", **more: object) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    for field, value in more.items():
        setattr(entry, field, value)
    return entry.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 10_240,
        b"not a tar file" * 100,
        _entry("jobs.jsonl", b"{}")[:-100],
        _entry("jobs.jsonl", b"{}") * 2,
        *(_entry(name) for name in ("other", "../jobs.jsonl", "/jobs.jsonl", "./jobs.jsonl", "jobs.jsonl/", "a" * 300)),
        *(_entry("jobs.jsonl", type=kind, linkname="/etc/passwd") for kind in (b"1", b"2", b"3", b"5", b"6", b"S")),
        _entry("jobs.jsonl", size=1 << 40),
        _entry("jobs.jsonl", size=1 << 70),
        _entry("x", b"20 path=jobs.jsonl\n", type=b"x"),
    ],
)
def test_compare_refuses_every_odd_archive(audited: World, home: Home, tmp_path: Path, content: bytes) -> None:
    odd = tmp_path / "odd.tar"
    for written in (content, gzip.compress(content)):
        odd.write_bytes(written)
        with pytest.raises(BadInput, match=r"odd\.tar: not an intact audit bundle"):
            compare(home, audited.ledger, odd)


def test_unpacking_takes_no_more_space_than_the_archive(tmp_path: Path) -> None:
    """A sparse entry of `tarfile` is a terabyte of zeros in 512 bytes."""
    odd, folder = tmp_path / "odd.tar", tmp_path / "folder"
    folder.mkdir()
    odd.write_bytes(_entry("jobs.jsonl", b"x" * 2_000) + _entry("proof.json", size=1 << 40))
    with pytest.raises(tarfile.TarError, match="ends within an entry"):
        comparison.unpack(odd, folder)
    assert sum(file.stat().st_size for file in folder.iterdir()) <= odd.stat().st_size


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_compare_opens_only_ordinary_files(
    audited: World, home: Home, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "odd.tar")
    with pytest.raises(NotFound, match=r"odd\.tar: no such file"):
        compare(home, audited.ledger, tmp_path / "odd.tar")


def test_export_beside_a_writer_has_one_moment(audited: World, home: Home, tmp_path: Path) -> None:
    done = threading.Event()

    def write() -> None:
        number = 100
        while not done.is_set():
            audited.ingest(*notes(1, number))
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        sizes = []
        for number in range(5):
            made = export.export(home, audited.ledger, tmp_path / f"{number}.tar")
            folder = tmp_path / f"{number}"
            folder.mkdir()
            comparison.unpack(made.file, folder)
            sizes.append(verify.bundle(folder).size)
    finally:
        done.set()
        writer.join()
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 1


_EXPORT = """
import os, signal, sys
from pathlib import Path
from catchment.audit.export import export
from catchment.ledger import Ledger
from catchment.runtime.home import Home

home, target, at = Home(Path(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3])
ledger, steps = Ledger.open("sqlite:///" + sys.argv[4]), 0

def count(event, arguments):
    global steps
    if event in ("open", "os.rename", "os.remove") and str(target.parent) in str(arguments[0]):
        steps += 1
        if steps == at:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
export(home, ledger, target)
print(steps)
"""


@pytest.mark.full
def test_export_killed_at_any_step_leaves_no_file_or_a_whole_one(audited: World, home: Home, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    target, database = place / "bundle.tar", audited.url.removeprefix("sqlite:///")

    def child(at: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", _EXPORT, str(home.path), str(target), str(at), database]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    steps = int(child(0).stdout)
    assert steps > 8
    whole = target.read_bytes()
    for at in range(max(1, steps - 9), steps + 1):
        for file in place.iterdir():
            file.unlink()
        assert child(at).returncode == -signal.SIGKILL
        assert not target.exists() or target.read_bytes() == whole
        if not target.exists():
            export.export(home, audited.ledger, target)
            assert {file.name for file in place.iterdir()} == {"bundle.tar", "bundle.tar.minisig"}


def test_export_names_a_missing_folder_and_an_existing_name(audited: World, home: Home, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="missing: no such folder; create it"):
        export.export(home, audited.ledger, tmp_path / "missing" / "bundle.tar")
    (tmp_path / "link.tar").symlink_to(tmp_path / "nowhere")
    with pytest.raises(BadInput, match=r"link\.tar: exists already"):
        export.export(home, audited.ledger, tmp_path / "link.tar")


def test_bundle_of_the_future_has_no_rows(audited: World, home: Home, tmp_path: Path) -> None:
    made = export.export(home, audited.ledger, tmp_path / "bundle.tar", since=datetime(9999, 12, 31, tzinfo=UTC))
    folder = tmp_path / "folder"
    folder.mkdir()
    comparison.unpack(made.file, folder)
    assert made.rows == 0 < made.size
    assert "period: only rows since 9999-12-31 00:00:00 UTC: no rows\nsources: none\n" in run(folder).stdout


def test_removed_source_is_exported_listed_and_compared(audited: World, home: Home, tmp_path: Path) -> None:
    before = export.export(home, audited.ledger, tmp_path / "before.tar", "notes")
    audited.ledger.syncs.end(audited.sync.id, "completed", {})
    audited.ledger.sources.remove("notes", "operator:anna", "moved")
    audited.clock.forward(days=400)
    made = export.export(home, audited.ledger, tmp_path / "after.tar", "notes")
    assert made.rows > before.rows
    assert acts(audited.ledger, "notes")[0].event == "removed"
    found = compare(home, audited.ledger, before.file)
    assert {str(fate) for fate in found.fates.values()} == {"gone"}
    with pytest.raises(NotFound):
        export.export(home, audited.ledger, tmp_path / "other.tar", "nosuch")


def test_same_history_makes_the_same_bytes_later(audited: World, home: Home, bundle: Path, tmp_path: Path) -> None:
    audited.clock.forward(days=3)
    with closing(Ledger.open(audited.url)) as later:
        again = export.export(home, later, tmp_path / "again.tar")
    assert again.file.read_bytes() == bundle.read_bytes()


def test_rows_outside_the_named_source_or_period_are_found(audited: World, home: Home, tmp_path: Path) -> None:
    day = audited.clock.moment + timedelta(days=1)
    audited.clock.forward(days=2)
    audited.ingest(note("n/9.md"))
    made = export.export(home, audited.ledger, tmp_path / "bundle.tar", "notes", day)
    folder = tmp_path / "folder"
    folder.mkdir()
    comparison.unpack(made.file, folder)
    manifest = forged_bundles.described_by(folder)
    for change, problem in (
        ({"since": manifest["since"] + 10**12}, "is from before the period of the bundle"),
        ({"sources": {"7": {"name": "notes", "kind": "local_files"}}}, "has a line of another source"),
        ({"sources": {}}, "describes other sources than its own"),
        ({"rows": manifest["rows"] + 1}, f"says {made.rows + 1} of {made.size} rows, and there are {made.rows}"),
    ):
        root = (folder / "checkpoint.txt").read_text().split("\n")[2]
        forged_bundles.sign_as(folder, manifest | change, root)
        with pytest.raises(verify.Broken, match=problem):
            verify.bundle(folder)
