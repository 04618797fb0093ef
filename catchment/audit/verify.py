"""Verify an audit bundle of Catchment with nothing but Python.

    tar xf BUNDLE.tar && python3 -I verify.py [--item N] [--key KEY]

Checks the folder of this file: that it holds the files of the manifest and no others, that no row of the history is changed,
missing or out of order, that the rows belong to the signed tree, who signed it, and that every job went only through permitted
states. `--key` is the public key to expect: `catchment audit key` shows it where the bundle was made.

Catchment uses the same functions when it makes and checks the history.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

FIELDS = ("id", "at", "actor", "event", "source_id", "item_id", "job_id", "sync_id", "attempt", "reason")
"""The fields of a row of the history, in the order in which they are hashed. `at` is in microseconds since 1970 (UTC)."""
FILES = ("artifacts.jsonl", "history.jsonl", "jobs.jsonl", "proof.json", "throttles.jsonl", "verify.py")
"""The files that the manifest describes."""
ERASED = ""
"""The event of a row that was erased except for its number and its hash."""
ORIGIN = "catchment.localhost/audit"
"""The name of the log in its checkpoints, which have the form of a C2SP signed note."""
FIRST = frozenset({"pending", "skipped", "retrying", "quarantined", "succeeded", "cancelled"})
"""The states in which a job may begin: a listing can end or fail it at once, and an undo makes it with its result."""
TRANSITIONS: dict[str, frozenset[str]] = {
    "pending": frozenset({"running", "cancelled", "superseded"}),
    "running": frozenset({"succeeded", "skipped", "retrying", "quarantined", "pending", "cancelled", "superseded"}),
    "retrying": frozenset({"running", "cancelled", "superseded"}),
    "quarantined": frozenset({"pending", "cancelled", "superseded"}),
    "succeeded": frozenset(),
    "skipped": frozenset(),
    "cancelled": frozenset(),
    "superseded": frozenset(),
}
"""The permitted next states of a job."""
_STATES = ("", *TRANSITIONS)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - Python 3.9, too


class Broken(Exception):
    """What is wrong with the bundle, in one line."""


def link(previous: bytes, row: Sequence[Any]) -> bytes:
    """Return the hash of a row, chained to all rows before it."""
    return hashlib.sha256(previous + json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()).digest()


def leaf(proof: bytes) -> bytes:
    """Return the leaf of the tree (RFC 6962) for the chained hash of a row."""
    return hashlib.sha256(b"\0" + proof).digest()


def node(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node of the tree."""
    return hashlib.sha256(b"\1" + left + right).digest()


class Tree:
    """The tree over a growing list of leaves. Keeps one hash for each bit of its size."""

    def __init__(self) -> None:
        self.size = 0
        self._complete: list[tuple[int, bytes]] = []

    def add(self, hashed: bytes) -> None:
        """Append a leaf."""
        self.size += 1
        leaves = 1
        while self._complete and self._complete[-1][0] == leaves:
            hashed = node(self._complete.pop()[1], hashed)
            leaves *= 2
        self._complete.append((leaves, hashed))

    def root(self) -> bytes:
        """Return the root; of no leaves, the hash of nothing."""
        if not self._complete:
            return hashlib.sha256(b"").digest()
        *rest, (_, root) = self._complete
        for _, left in reversed(rest):
            root = node(left, root)
        return root


def split(size: int) -> int:
    """Return the number of leaves of the left branch of a tree with at least two leaves."""
    return 1 << (size - 1).bit_length() - 1


def root_of(size: int, leaves: Iterable[tuple[int, bytes]], cover: Iterable[bytes]) -> bytes:
    """Return the root of a tree of which only some leaves are known.

    `leaves`: their numbers, from 1, ascending, and hashes. `cover`: the roots of the largest branches without a known leaf,
    from left to right. Raises Broken if they do not fill the tree.
    """
    known, hidden = iter(leaves), iter(cover)
    upcoming = next(known, None)

    def branch(low: int, high: int) -> bytes:
        nonlocal upcoming
        if upcoming is None or upcoming[0] > high:
            if (root := next(hidden, None)) is None:
                raise Broken("proof.json: a branch of the tree is missing")
            return root
        if high - low == 1:
            root, upcoming = upcoming[1], next(known, None)
            return root
        middle = low + split(high - low)
        left = branch(low, middle)
        return node(left, branch(middle, high))

    root = branch(0, size) if size else Tree().root()
    if upcoming is not None or next(hidden, None) is not None:
        raise Broken("proof.json: the tree has more branches than it should")
    return root


class Replay:
    """The states of jobs, replayed from their events in order, in one byte each. `whole`: from their first events."""

    def __init__(self, *, whole: bool = True) -> None:
        self._states, self._is_whole = bytearray(), whole

    def follow(self, row: Sequence[Any]) -> str | None:
        """Take one row of the history. Return what is wrong with it, or None."""
        _, _, _, event, _, _, job, *_ = row
        if job is None or event not in TRANSITIONS:
            return None
        if job >= len(self._states):
            self._states.extend(bytes(job - len(self._states) + 1_024))
        before = _STATES[self._states[job]]
        self._states[job] = _STATES.index(event)
        if event in TRANSITIONS[before] if before else event in FIRST or not self._is_whole:
            return None
        return f"row {row[0]}: job {job} went from {before or 'nothing'} to {event}, which is not permitted"

    def objection(self, job: int, state: str) -> str | None:
        """Return how the last state of a job differs from this one, or None."""
        known = _STATES[self._states[job]] if job < len(self._states) else ""
        if state == known or not (known or self._is_whole):
            return None
        return f"job {job} is {state}, and {known or 'unknown'} by its history"


def checkpoint(size: int, root: bytes, *more: str) -> str:
    """Return the text of a checkpoint, which is what is signed. `more`: further lines."""
    return "\n".join((ORIGIN, str(size), base64.b64encode(root).decode(), *more, ""))


def key_id(key: bytes) -> bytes:
    """Return the four bytes that name a public key in a signed note."""
    return hashlib.sha256(f"{ORIGIN}\n".encode() + b"\1" + key).digest()[:4]


def opened(note: str, key: bytes, check: Callable[[bytes, bytes, bytes], bool] | None = None) -> list[str]:
    """Return the lines of a signed note. Raises Broken unless this key signed it. `check`: a faster `is_signed`."""
    text, _, signed = note.partition("\n\n")
    text += "\n"
    try:
        mark, origin, encoded = signed.rstrip("\n").split(" ")
        signature = base64.b64decode(encoded, validate=True)
    except ValueError:
        raise Broken("the checkpoint has no signature") from None
    if (mark, origin, signature[:4]) != ("\u2014", ORIGIN, key_id(key)):
        raise Broken("the checkpoint was signed with another key")
    if not (check or is_signed)(key, text.encode(), signature[4:]):
        raise Broken("the signature of the checkpoint is wrong")
    return text.splitlines()


_PRIME = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _PRIME) % _PRIME
_Point = tuple[int, int, int, int]


def is_signed(key: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether an Ed25519 signature (RFC 8032) is right. Takes milliseconds."""
    if len(signature) != 64 or len(key) != 32:
        return False
    scalar = int.from_bytes(signature[32:], "little")
    point, given = _decompress(key), _decompress(signature[:32])
    if point is None or given is None or scalar >= _ORDER:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % _ORDER
    base = _decompress((4 * pow(5, -1, _PRIME) % _PRIME).to_bytes(32, "little"))
    assert base is not None
    left, right = _multiply(scalar, base), _add(given, _multiply(challenge, point))
    return not any((left[n] * right[2] - right[n] * left[2]) % _PRIME for n in (0, 1))


def _decompress(encoded: bytes) -> _Point | None:
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _PRIME) % _PRIME
    x = pow(square, (_PRIME + 3) // 8, _PRIME)
    if (x * x - square) % _PRIME:
        x = x * pow(2, (_PRIME - 1) // 4, _PRIME) % _PRIME
    if y >= _PRIME or (x * x - square) % _PRIME or (x == 0 and sign):
        return None
    x = _PRIME - x if x & 1 != sign else x
    return x, y, 1, x * y % _PRIME


def _add(one: _Point, other: _Point) -> _Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _PRIME
    b = (one[1] + one[0]) * (other[1] + other[0]) % _PRIME
    c, d = 2 * one[3] * other[3] * _D % _PRIME, 2 * one[2] * other[2] % _PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _PRIME, g * h % _PRIME, f * g % _PRIME, e * h % _PRIME


def _multiply(scalar: int, point: _Point) -> _Point:
    result: _Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            result = _add(result, point)
        point, scalar = _add(point, point), scalar >> 1
    return result


def bundle(folder: Path, expected_key: str | None = None, item: int = -1) -> tuple[Any, list[list[Any]]]:
    """Verify an unpacked bundle. Return its manifest and the rows of an item. Raises Broken."""
    there = {path.name for path in folder.iterdir()}
    if there != {*FILES, "checkpoint.txt", "manifest.json"}:
        odd = sorted(there ^ {*FILES, "checkpoint.txt", "manifest.json"})
        raise Broken(f"{odd[0]}: {'does not belong to a bundle' if odd[0] in there else 'is missing'}")
    for path in folder.iterdir():
        if path.is_symlink() or not path.is_file():
            raise Broken(f"{path.name}: not an ordinary file")
    manifest = json.loads((folder / "manifest.json").read_bytes())
    key = base64.b64decode(manifest["key"])
    if expected_key is not None and manifest["key"] != expected_key:
        raise Broken("the bundle was signed with another key")
    note = (folder / "checkpoint.txt").read_text(encoding="utf-8")
    _, size, root, *more = opened(note, key)
    if more != [f"manifest {hashlib.sha256((folder / 'manifest.json').read_bytes()).hexdigest()}"]:
        raise Broken("manifest.json: was changed")
    if tuple(manifest["files"]) != FILES:
        raise Broken("manifest.json: does not describe the files")
    for name, digest in manifest["files"].items():
        if _digest(folder / name) != digest:
            raise Broken(f"{name}: was changed")
    about: list[list[Any]] = []
    replay = Replay(whole=manifest["whole"])
    cover = map(base64.b64decode, json.loads((folder / "proof.json").read_bytes()))
    leaves = _leaves(folder, replay, lambda row: about.append(row) if row[5] == item else None)
    if base64.b64encode(root_of(int(size), leaves, cover)).decode() != root:
        raise Broken("history.jsonl: its rows do not belong to the signed tree")
    for job in _lines(folder / "jobs.jsonl"):
        if objection := replay.objection(job["id"], job["state"]):
            raise Broken(f"jobs.jsonl: {objection}")
    return manifest, about


def _leaves(folder: Path, replay: Replay, see: Callable[[list[Any]], None]) -> Iterator[tuple[int, bytes]]:
    """Yield the leaves of the rows, after `see` has seen each."""
    last, previous = 0, b""
    for line in _lines(folder / "history.jsonl"):
        row = [line[name] for name in FIELDS]
        before = bytes.fromhex(line["before"]) if "before" in line else previous
        if (
            row[0] <= last
            or (row[0] == last + 1 and before != previous)
            or ("before" not in line and row[0] != last + 1)
        ):
            raise Broken(f"history.jsonl: row {row[0]} is out of order, or the row before it was changed")
        last, previous = row[0], link(before, row)
        if problem := replay.follow(row):
            raise Broken(f"history.jsonl: {problem}")
        see(row)
        yield last, leaf(previous)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def main() -> int:
    """Verify the folder of this file. Returns the exit code."""
    folder = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(prog="verify.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--item", type=int, default=-1, metavar="N", help="also print what happened to this item")
    parser.add_argument("--key", metavar="KEY", help="the public key that must have signed the bundle")
    asked = parser.parse_args()
    say = print
    try:
        manifest, rows = bundle(folder, asked.key, asked.item)
    except (Broken, ValueError, KeyError, TypeError, RecursionError) as problem:
        say(f"broken: {problem if isinstance(problem, Broken) else f'unreadable ({type(problem).__name__})'}")
        return 1
    say(f"intact: {manifest['rows']} of {manifest['size']} rows of the history, signed with {manifest['key']}")
    for number, at, actor, event, _, _, job, sync, attempt, reason in rows:
        when = _EPOCH + timedelta(microseconds=at)
        about = f"job {job}, sync {sync}, attempt {attempt}"
        say(f"{number}  {when:%Y-%m-%d %H:%M:%S} UTC  {event}  by {actor}  ({about})  {reason or ''}".rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
