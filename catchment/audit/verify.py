"""Verify an audit bundle of Catchment with nothing but Python.

    tar xf BUNDLE.tar && python3 -I verify.py [FOLDER] [--item N] [--key KEY]

Checks an unpacked bundle, by default the folder of this file: that it has the files of the manifest and no others, as signed;
that each row of the history in it is unchanged, in order and at its place in the signed tree; and that each job, as far as
its rows are there, went only through permitted states to the state in jobs.jsonl. A bundle of all sources and times lacks no
row. A bundle of one source, of a period, or after an erasure is a part: the signer chose its rows.

Only the signature vouches for throttles.jsonl, artifacts.jsonl and the names of sources, and anybody can sign: `--key` is the
public key to expect, which `catchment audit key` shows where the bundle was made. This program is a part of the bundle, too:
if you do not trust the sender, take it from an installation of Catchment, or read it first.

Each number that it prints is counted or checked, hidden characters are printed as escapes, and memory grows only with the
number of rows. The hash of a row and the table of states stand a second time here, because this file must run alone; tests
compare them with those of the ledger.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

FIELDS = ("id", "at", "actor", "event", "source_id", "item_id", "job_id", "sync_id", "attempt", "reason")
"""The fields of a row of the history, in the order in which they are hashed. `at` is in microseconds since 1970 (UTC)."""
FILES = ("artifacts.jsonl", "history.jsonl", "jobs.jsonl", "proof.json", "throttles.jsonl", "verify.py")
"""The files that the manifest describes."""
ERASED = ""
"""The event of a row that was erased except for its number and its hash."""
RESTORED = "restored"
"""The event of a row that records the history that a restore replaced, and the signed part of the backup.

It is in each bundle, also in that of one source or period, and always printed.
"""
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
_NUMBERS = {state: number for number, state in enumerate(_STATES)}
_PERMITTED = frozenset(
    [(0, _NUMBERS[state]) for state in FIRST]
    + [(_NUMBERS[state], _NUMBERS[after]) for state in TRANSITIONS for after in TRANSITIONS[state]]
)
NO_LEAVES = hashlib.sha256(b"").digest()
"""The root of a tree without leaves."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - Python 3.9, too
_PAGE_BITS = 6
_MOST_BYTES = 1 << 22
"""Size of a line, of the manifest and of the checkpoint. A reason typed at a command has at most 2^17 bytes."""
_SHORT = 1_000
_MOST_NAMES = 20
_Types = tuple[type, ...]
_NUMBER: _Types = (int,)
_TEXT: _Types = (str,)
_MAYBE_NUMBER: _Types = (int, type(None))
_MAYBE_TEXT: _Types = (str, type(None))
_Form = dict[tuple[str, ...], frozenset[_Types]]
"""The permitted names of a JSON object, in their order, and for each the permitted types of its values."""


def _form(**fields: _Types) -> _Form:
    names = tuple(sorted(fields))
    return {names: frozenset(product(*(fields[name] for name in names)))}


_ROW = {
    **dict.fromkeys(FIELDS, _MAYBE_NUMBER),
    **{"id": _NUMBER, "at": _NUMBER, "actor": _TEXT, "event": _TEXT, "reason": _MAYBE_TEXT},
}
_HISTORY = {**_form(**_ROW), **_form(**_ROW, before=_TEXT)}
_JOBS = _form(
    id=_NUMBER,
    source_id=_NUMBER,
    item_id=_NUMBER,
    state=_TEXT,
    reason=_MAYBE_TEXT,
    attempt=_NUMBER,
    enqueued_at=_NUMBER,
    finished_at=_MAYBE_NUMBER,
)
_ARTIFACTS = _form(id=_NUMBER, source_id=_NUMBER, item_id=_NUMBER, hash=_TEXT, normalizer=_TEXT, text=_TEXT)
_THROTTLES = _form(scope=_TEXT, rule=(dict,), changed_at=_NUMBER)
_SOURCE = _form(name=_TEXT, kind=_TEXT)
_MANIFEST = _form(
    version=_NUMBER,
    code=_TEXT,
    key=_TEXT,
    source=_MAYBE_TEXT,
    sources=(dict,),
    since=_MAYBE_NUMBER,
    whole=(bool,),
    generated_at=_NUMBER,
    size=_NUMBER,
    rows=_NUMBER,
    files=(dict,),
)
_HASH = re.compile(rb'"([^"]{44})"([,\]])')
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
"""Characters that Python calls printable and no font shows."""


class Broken(Exception):
    """The bundle is not intact. The text is the problem in one line."""


def visible(text: object) -> str:
    """Return the text on one line, with each control, directional or invisible character as an escape. Idempotent."""
    shown = _UNSEEN.sub(_escape, str(text))
    return shown if shown.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in shown)


def _escape(match: str | re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def link(previous: bytes, row: Sequence[Any]) -> bytes:
    """Return the hash of a row, chained to all rows before it."""
    return hashlib.sha256(previous + _encode(row).encode()).digest()


def leaf(proof: bytes) -> bytes:
    """Return the leaf of the tree (RFC 6962) for the chained hash of a row."""
    return hashlib.sha256(b"\0" + proof).digest()


def node(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node of the tree."""
    return hashlib.sha256(b"\1" + left + right).digest()


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

    root = branch(0, size) if size else NO_LEAVES
    if upcoming is not None or next(hidden, None) is not None:
        raise Broken("proof.json: the tree has more branches than it should")
    return root


class Replay:
    """The states of jobs, replayed from their events in order, in pages of one byte each.

    `is_whole`: from their first events. Set it to False before the first row after an omitted row.
    """

    def __init__(self, *, whole: bool = True) -> None:
        self._pages: dict[int, bytearray] = {}
        self.is_whole = whole

    def follow(self, rows: Iterable[Sequence[Any]]) -> list[str]:
        """Take the next rows of the history. Return their problems."""
        pages, problems = self._pages, []
        for row in rows:
            job, state = row[6], _NUMBERS.get(row[3])
            if job is None or not state:
                continue
            if type(job) is not int:
                problems.append(f"row {row[0]}: its job is not a number")
                continue
            page = pages.get(job >> _PAGE_BITS)
            if page is None:
                page = pages[job >> _PAGE_BITS] = bytearray(1 << _PAGE_BITS)
            place = job & (1 << _PAGE_BITS) - 1
            before, page[place] = page[place], state
            if (before, state) not in _PERMITTED and (before or self.is_whole):
                known = _STATES[before] or "nothing"
                problems.append(f"row {row[0]}: job {job} went from {known} to {row[3]}, which is not permitted")
        return problems

    def objection(self, job: int, state: str) -> str | None:
        """Return how the last state of a job differs from this one, or None."""
        page = self._pages.get(job >> _PAGE_BITS)
        known = _STATES[page[job & (1 << _PAGE_BITS) - 1]] if page else ""
        if state == known or not (known or self.is_whole):
            return None
        return f"job {job} is {visible(state)}, and {known or 'unknown'} by its history"


def checkpoint(size: int, root: bytes, *lines: str) -> str:
    """Return the text of a checkpoint, to be signed. `lines`: further lines."""
    return "\n".join((ORIGIN, str(size), base64.b64encode(root).decode(), *lines, ""))


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
    point, commitment = _decompress(key), _decompress(signature[:32])
    if point is None or commitment is None or scalar >= _ORDER:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % _ORDER
    base = _decompress((4 * pow(5, -1, _PRIME) % _PRIME).to_bytes(32, "little"))
    assert base is not None
    left, right = _multiply(scalar, base), _add(commitment, _multiply(challenge, point))
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


def _add(first: _Point, second: _Point) -> _Point:
    a = (first[1] - first[0]) * (second[1] - second[0]) % _PRIME
    b = (first[1] + first[0]) * (second[1] + second[0]) % _PRIME
    c, d = 2 * first[3] * second[3] * _D % _PRIME, 2 * first[2] * second[2] % _PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _PRIME, g * h % _PRIME, f * g % _PRIME, e * h % _PRIME


def _multiply(scalar: int, point: _Point) -> _Point:
    result: _Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            result = _add(result, point)
        point, scalar = _add(point, point), scalar >> 1
    return result


class Bundle(NamedTuple):
    """The contents of an intact bundle. All numbers are counted.

    `source`: the only source in it, or None. `rows`: by source. `first` and `last`: the earliest and the latest time.
    `shown`: the rows of restores and of the requested item.
    """

    key: str
    source: str | None
    since: int | None
    size: int
    rows: dict[str, int]
    first: int
    last: int
    jobs: int
    rules: int
    documents: int
    shown: list[Sequence[Any]]


def bundle(folder: Path, expected_key: str | None = None, item: int = -1) -> Bundle:
    """Verify an unpacked bundle. Return its contents. Raises Broken, or another exception for a folder without a bundle."""
    _require_files(folder)
    manifest, root = _signed(folder, expected_key)
    names = _source_names(manifest)
    only = next(iter(names)) if manifest["source"] is not None else None
    rows: dict[int | None, int] = {}
    about: list[Sequence[Any]] = []
    since, first, last = manifest["since"], 0, 0

    def see(row: Sequence[Any]) -> None:
        nonlocal first, last
        at, source = row[1], row[4]
        if row[3] != RESTORED:
            if since is not None and at < since:
                raise Broken(f"history.jsonl: row {row[0]} is from before the period of the bundle")
            _require_source("history.jsonl", source, only)
        first, last = (min(first, at), max(last, at)) if rows else (at, at)
        rows[source] = rows.get(source, 0) + 1
        if row[5] == item or row[3] == RESTORED:
            about.append(row)

    replay = Replay(whole=manifest["whole"])
    leaves = _leaves(folder / "history.jsonl", replay, see)
    if root_of(manifest["size"], leaves, _cover(folder / "proof.json")) != root:
        raise Broken("history.jsonl: its rows do not belong to the signed tree")
    counted = sum(rows.values())
    if counted != manifest["rows"] or (manifest["whole"] and only is None and counted != manifest["size"]):
        raise Broken(f"manifest.json: says {manifest['rows']} of {manifest['size']} rows, and there are {counted}")
    jobs = 0
    for job in _in_order(folder / "jobs.jsonl", _JOBS, only):
        jobs += 1
        if objection := replay.objection(job["id"], job["state"]):
            raise Broken(f"jobs.jsonl: {objection}")
    documents = sum(1 for _ in _in_order(folder / "artifacts.jsonl", _ARTIFACTS, only))
    rules = sum(1 for _ in _lines(folder / "throttles.jsonl", _THROTTLES))
    by_source = {_source_name(number, names): count for number, count in rows.items()}
    size, key, source = manifest["size"], manifest["key"], manifest["source"]
    return Bundle(key, source, since, size, by_source, first, last, jobs, rules, documents, about)


def _require_files(folder: Path) -> None:
    missing = {*FILES, "checkpoint.txt", "manifest.json"}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name not in missing:
                raise Broken(f"{visible(entry.name)}: does not belong to a bundle")
            if not entry.is_file(follow_symlinks=False):
                raise Broken(f"{entry.name}: not an ordinary file")
            missing.remove(entry.name)
    if missing:
        raise Broken(f"{min(missing)}: is missing")


def _signed(folder: Path, expected_key: str | None) -> tuple[dict[str, Any], bytes]:
    """Return the manifest and the root of the tree, after it was checked that they and all files are as signed."""
    described = _content(folder / "manifest.json")
    manifest = _record("manifest.json", described, _MANIFEST)
    if manifest["version"] != 1:
        raise Broken(f"manifest.json: has version {manifest['version']}; take a newer verify.py")
    key = _bytes(manifest["key"])
    if expected_key not in (None, manifest["key"]):
        raise Broken(f"the bundle was signed with another key, {manifest['key']}")
    origin, size, root, *lines = opened(_content(folder / "checkpoint.txt").decode(), key)
    if (origin, size) != (ORIGIN, str(manifest["size"])) or manifest["size"] < 0:
        raise Broken("checkpoint.txt: belongs to another bundle")
    if lines != [f"manifest {hashlib.sha256(described).hexdigest()}"]:
        raise Broken("manifest.json: was changed")
    if tuple(manifest["files"]) != FILES:
        raise Broken("manifest.json: does not describe the files")
    for name, digest in manifest["files"].items():
        if _digest(folder / name) != digest:
            raise Broken(f"{name}: was changed")
    return manifest, _bytes(root)


def _source_names(manifest: dict[str, Any]) -> dict[int, str]:
    """Return the names of the sources in the bundle, for which only the signature vouches."""
    names = {}
    for number, source in manifest["sources"].items():
        _require_form("manifest.json", source, _SOURCE)
        names[_bounded(number)] = f"{source['name']} ({source['kind']})"
    its_own = [source["name"] for source in manifest["sources"].values()]
    if manifest["source"] is not None and its_own != [manifest["source"]]:
        raise Broken("manifest.json: describes other sources than its own")
    return names


def _source_name(number: int | None, names: dict[int, str]) -> str:
    return "no source" if number is None else names.get(number, f"source {number}")


def _require_source(name: str, source: int | None, only: int | None) -> None:
    if only is not None and source != only:
        raise Broken(f"{name}: has a line of another source")


def _leaves(file: Path, replay: Replay, see: Callable[[Sequence[Any]], None]) -> Iterator[tuple[int, bytes]]:
    """Yield the leaves of the rows, after `see` has seen each."""
    last, previous = 0, b""
    fields = itemgetter(*FIELDS)
    for line in _lines(file, _HISTORY):
        row = fields(line)
        number = row[0]
        before = _previous(line["before"]) if "before" in line else previous
        if number <= last or (before != previous if number == last + 1 else "before" not in line):
            raise Broken(f"history.jsonl: row {number} is out of order, or the row before it was changed")
        last, previous = number, link(before, row)
        for problem in replay.follow((row,)):
            raise Broken(f"history.jsonl: {problem}")
        see(row)
        yield last, leaf(previous)


def _previous(text: str) -> bytes:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise Broken("history.jsonl: a hash is not 64 hexadecimal digits")
    return bytes.fromhex(text)


def _cover(file: Path) -> Iterator[bytes]:
    """Yield the hashes of a list of JSON, of which only one is in memory."""
    with file.open("rb") as content:
        mark, part = content.read(1), content.read(47)
        while mark in b"[," and (match := _HASH.fullmatch(part)):
            yield _bytes(match[1].decode("ascii"))
            mark, part = match[2], content.read(47)
        if (mark, part) not in ((b"[", b"]\n"), (b"]", b"\n")):
            raise Broken("proof.json: is not a list of hashes")


def _in_order(file: Path, form: _Form, only: int | None) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file with ascending numbers."""
    last = 0
    for line in _lines(file, form):
        _require_source(file.name, line["source_id"], only)
        if line["id"] <= last:
            raise Broken(f"{file.name}: number {line['id']} is out of order")
        last = line["id"]
        yield line


def _lines(file: Path, form: _Form) -> Iterator[dict[str, Any]]:
    with file.open("rb") as lines:
        while line := lines.readline(_MOST_BYTES + 1):
            yield _record(file.name, line, form)


def _content(file: Path) -> bytes:
    with file.open("rb") as content:
        return content.read(_MOST_BYTES + 1)


def _record(name: str, line: bytes, form: _Form) -> dict[str, Any]:
    """Return a JSON object. Raises Broken, or ValueError if it is not JSON."""
    if len(line) > _MOST_BYTES:
        raise Broken(f"{name}: a line is too long")
    text = line.decode("ascii")
    value, end = (_DECODER if len(line) < _SHORT else _DECODER_OF_LONG).raw_decode(text)
    _require_form(name, value, form)
    if text[end:] not in ("", "\n"):
        raise Broken(f"{name}: a line does not end with its object")
    return value  # type: ignore[no-any-return]  # it has the form


def _require_form(name: str, value: Any, form: _Form) -> None:
    if type(value) is not dict or tuple(map(type, value.values())) not in form.get(tuple(value), ()):
        raise Broken(f"{name}: a line has other fields or types than it should")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise Broken("a field occurs twice")
    return value


def _no_constant(text: str) -> None:
    raise Broken(f"{text} is not JSON")


def _bounded(text: str) -> int:
    """Return a number. The time of `int` grows with the square of the digits, which Python 3.9 does not limit."""
    if len(text) > _SHORT or not text.isascii():
        raise Broken("a number has too many digits, or others than 0 to 9")
    return int(text)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
_DECODER_OF_LONG = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_bounded)
"""Takes twice as long."""


def _bytes(text: str) -> bytes:
    """Return a key or a hash of 32 bytes."""
    value = base64.b64decode(text, validate=True)
    if len(value) != 32 or base64.b64encode(value).decode() != text:
        raise Broken("a key or a hash is not 32 bytes in Base64")
    return value


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def main() -> int:
    """Verify a folder. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="verify.py", description=(__doc__ or "").partition("\n")[0])
    folder = Path(__file__).resolve().parent
    parser.add_argument(
        "folder", type=Path, nargs="?", default=folder, help="an unpacked bundle; default: beside verify.py"
    )
    parser.add_argument("--item", type=int, default=-1, metavar="N", help="also print what happened to this item")
    parser.add_argument("--key", metavar="KEY", help="the public key that must have signed the bundle")
    arguments = parser.parse_args()
    try:
        verified = bundle(arguments.folder, arguments.key, arguments.item)
    except Broken as problem:
        _say(f"broken: {problem}")
        return 1
    except Exception as problem:  # noqa: BLE001 - a bundle that causes any error is broken
        _say(f"broken: unreadable ({type(problem).__name__})")
        return 1
    for line in _report(verified, is_key_known=arguments.key is not None):
        _say(line)
    return 0


def _report(verified: Bundle, *, is_key_known: bool) -> Iterator[str]:
    rows = sum(verified.rows.values())
    yield f"intact: {rows} of {verified.size} rows of the history, signed with {verified.key}"
    if not is_key_known:
        yield "key: anybody can sign; compare it with the key that you expect, or pass --key"
    since = "" if verified.since is None else f"only rows since {_when(verified.since)}: "
    yield f"period: {since}{f'{_when(verified.first)} to {_when(verified.last)}' if rows else 'no rows'}"
    names = sorted(verified.rows)
    others = f", and {len(names) - _MOST_NAMES} others" if len(names) > _MOST_NAMES else ""
    yield f"sources: {', '.join(f'{name}: {verified.rows[name]}' for name in names[:_MOST_NAMES]) or 'none'}{others}"
    yield (
        f"tables: history ({rows} rows, proven), jobs ({verified.jobs}, with the states that the history gives), "
        f"throttles ({verified.rules}) and artifacts ({verified.documents}), both as the signer had them"
    )
    for number, at, actor, event, _, _, job, sync, attempt, reason in verified.shown:
        about = f"job {job}, sync {sync}, attempt {attempt}"
        yield f"{number}  {_when(at)}  {event}  by {actor}  ({about})  {reason or ''}".rstrip()


def _when(at: int) -> str:
    try:
        return f"{_EPOCH + timedelta(microseconds=at):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return f"{at} microseconds after 1970"


def _say(line: str) -> None:
    encoding = sys.stdout.encoding or "ascii"
    sys.stdout.write(visible(line).encode(encoding, "backslashreplace").decode(encoding) + "\n")


if __name__ == "__main__":
    sys.exit(main())
