"""The signed checkpoints of a home, and those of them that are about the present history.

Each is a line of JSON with a key and a signed note: how long the history was, and the root of its tree. Lines are only added.
Each also signs the SHA-256 of all lines before it, so the last one vouches for the others: a line that was removed, repeated,
moved or taken from elsewhere is found. Lines of older versions lack that hash; the first line with one includes them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from catchment.audit.verify import Broken, opened

if TYPE_CHECKING:
    from hashlib import _Hash

AFTER, NEXT, MAY_BE_ERASED, RESTORED = "after", "next", "erased", "restored"
"""The first words of further signed lines of a checkpoint."""
_FORMER = "former"
_MOST_ROWS = 1 << 62
_UNKNOWN_KEY = (
    "The last checkpoint was signed with another key than that of this home; bring back the file `audit/key`, "
    "or move `audit/checkpoints` away to start anew"
)


@dataclass(frozen=True, slots=True)
class TreeHead:
    """The number of rows of the history, and the root of their tree, as signed. With 0 rows it only vouches for earlier lines.

    `erased`: how many rows may be erased, all of them among the first `erased_to`. `erased_rows`: the hashes of the numbers of
    these rows, and of the rows erased earlier; empty in a line of an older version.
    """

    size: int
    root: bytes
    erased: int = 0
    erased_to: int = 0
    erased_rows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Restoration:
    """A restore, as signed before it replaced the ledger; or another reason (`why`) to work with another history from here.

    `made`: the time of the backup, or of the change, in ISO format. `rows`: those of the backup, in place of `replaced` rows.
    `signed`: how many of them its own checkpoints covered. `row`: the hash of the row after them, in hexadecimal, which a
    restore added. `home`: the key of the other home that the backup is from. `problem`: how its history differed from its own
    checkpoints, or is not intact.
    """

    made: str
    rows: int
    replaced: int
    signed: int
    row: str
    home: str | None = None
    problem: str | None = None
    why: str = RESTORED

    def __str__(self) -> str:
        if self.why != RESTORED:
            return f"{self.rows + 1:,} rows in place of {self.replaced:,} of another history"
        return in_words(self.made, self.rows, self.replaced, self.signed, self.home)


def in_words(at: str, rows: int, replaced: int, signed: int, home: str | None) -> str:
    """Return the facts of a restore that its row in the history has, too."""
    instead = f" in place of {replaced:,}" if replaced else ""
    other = f", by another home, with the key {home}" if home else ""
    return f"{rows:,} rows{instead}, from the backup of {at}; {signed:,} of them were signed{other}"


@dataclass(frozen=True, slots=True)
class SignedLine:
    """One line: its key and its signed content. `problem`: why it is not valid, in words. `end`: the byte after it."""

    key: str
    head: TreeHead
    restoration: Restoration | None = None
    problem: str | None = None
    end: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """The checkpoints that the present history must agree with, smallest first, and the restores that led to it.

    `problems`: the problems of the lines themselves, one sentence each.
    """

    heads: tuple[TreeHead, ...] = ()
    restored: tuple[Restoration, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def inherited(self) -> tuple[str, ...]:
        """The problems of the backup in the last restore."""
        return tuple(_of_backup(self.restored[-1])) if self.restored else ()

    @property
    def permitted(self) -> TreeHead:
        """The checkpoint that permits to erase most rows."""
        return max(self.heads, key=lambda head: head.erased, default=TreeHead(0, b""))

    def permits(self, erased_rows: str) -> bool:
        """Return whether rows with this hash of their numbers may be erased. Older versions signed no hash."""
        permitted = {rows for head in self.heads for rows in head.erased_rows}
        return not permitted or erased_rows in permitted


def read(data: bytes) -> list[SignedLine]:
    """Return the lines of this home. Lines that a restore took over from another home are left out: only people read them.

    A key is known if the line before it announced it. A restore begins with the key of its home.
    """
    return list(_read(data))


def standing_of(lines: Sequence[SignedLine], key: str, is_in_place: Callable[[Restoration], bool]) -> Standing:
    """Return the checkpoints that hold for a ledger. `key`: the public key of the home.

    Lines before a completed restore do not count: they are about the replaced history. A restore that was killed before it
    replaced the ledger has no effect.
    """
    heads: list[TreeHead] = []
    restored: list[Restoration] = []
    problems: list[str] = []
    for line in lines:
        if line.restoration and is_in_place(line.restoration):
            heads, problems = [line.head], _of_backup(line.restoration)
            restored.append(line.restoration)
        elif line.problem:
            problems.append(line.problem)
        elif line.head.size and not line.restoration:
            heads.append(line.head)
    if lines and not lines[-1].problem and lines[-1].key != key:
        problems.append(_UNKNOWN_KEY)
    return Standing(tuple(sorted(heads, key=lambda head: head.size)), tuple(restored), tuple(problems))


def parts_of(data: bytes) -> list[list[SignedLine]]:
    """Return the lines in parts. A restore begins a new part, because the history continues from the backup."""
    parts: list[list[SignedLine]] = [[]]
    for line in read(data):
        if line.restoration:
            parts.append([])
        parts[-1].append(line)
    return parts


def about(data: bytes, rows: int) -> bytes:
    """Return the lines that can be about a history of so many rows: not the last ones, which were added when it was longer."""
    end, is_longer = 0, False
    for line in read(data):
        is_longer = line.head.size > rows or (is_longer and not line.restoration)
        end = end if is_longer else line.end
    return data[:end]


def other_home(backup_log: bytes, home_log: bytes, key: str) -> str | None:
    """Return the key of the other home that the checkpoints of a backup are from; None for those of this home.

    `key`: the public key of this home; empty if it has none yet.
    """
    latest = read(backup_log)[-1:]
    is_ours = home_log.startswith(backup_log) or (latest and latest[0].key == key)
    return None if is_ours or not latest else latest[0].key


def taken_over(backup_log: bytes, home_log: bytes) -> bytes:
    """Return the lines of another home that are not among ours, marked as such."""
    known = {stored["note"] for _, stored in _stored(home_log) if stored}
    added = (stored | {_FORMER: True} for _, stored in _stored(backup_log) if stored and stored["note"] not in known)
    return b"".join(map(dumped, added))


def dumped(line: Mapping[str, Any]) -> bytes:
    """Return the stored form of a line."""
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def digest_of_rows(numbers: Iterable[int]) -> str:
    """Return the hash of the numbers of rows, in their order."""
    hashed = sha256()
    for number in numbers:
        hashed.update(b"%d\n" % number)
    return _encoded(hashed)


def digest(data: bytes) -> str:
    """Return the hash of all lines so far, as the next one signs it."""
    return _encoded(sha256(data))


def _read(data: bytes) -> Iterator[SignedLine]:
    before, allowed, retired, is_chained, is_former = sha256(), set[str](), set[str](), False, False
    number = end = 0
    for number, (raw, stored) in enumerate(_stored(data), 1):
        expected = _encoded(before)
        before.update(raw)
        end += len(raw)
        if stored and stored.get(_FORMER):
            is_former = True
            continue
        try:
            line, marks = _opened(stored)
            if allowed and line.key not in allowed and not line.restoration:
                raise Broken("it was signed with an unknown key")
            if line.key in retired:
                raise Broken("it was signed with a key that was replaced")
            follows = marks.get(AFTER, "" if is_chained else expected) == expected
            if not follows or (is_former and not line.restoration):
                raise Broken("it does not follow the lines before it")
        except (Broken, ValueError, KeyError, TypeError) as error:
            reason = str(error) if isinstance(error, Broken) else "is unreadable"
            yield _invalid(number, reason, end)
            continue
        is_chained, is_former = is_chained or AFTER in marks, False
        retired |= allowed - {line.key}
        allowed = {line.key, marks.get(NEXT, line.key)}
        yield replace(line, end=end)
    if is_former:
        yield _invalid(number, "it is of another home, and no restore follows", end)


def _invalid(number: int, reason: str, end: int) -> SignedLine:
    return SignedLine("", TreeHead(0, b""), problem=f"Checkpoint {number}: {reason}", end=end)


def _opened(stored: dict[str, Any] | None) -> tuple[SignedLine, dict[str, str]]:
    """Return a line and its further signed lines by their first words."""
    if stored is None:
        raise ValueError
    _, size, root, *lines = opened(stored["note"], base64.b64decode(stored["key"]), _is_signed)
    marks = {word: rest for word, _, rest in (line.partition(" ") for line in lines)}
    if "manifest" in marks:
        raise Broken("it is that of a bundle")
    erased, erased_to, *erased_rows = marks.get(MAY_BE_ERASED, "0 0").split(" ")
    head = TreeHead(int(size), base64.b64decode(root), int(erased), int(erased_to), tuple(erased_rows))
    restoration = Restoration(**json.loads(marks[RESTORED])) if RESTORED in marks else None
    if head.size > _MOST_ROWS or (restoration and restoration.rows + 1 != head.size):
        raise ValueError
    return SignedLine(stored["key"], head, restoration), marks


def _stored(data: bytes) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Yield each line as bytes, and parsed unless it is unreadable."""
    for raw in data.splitlines(keepends=True):
        try:
            stored = json.loads(raw)
        except (ValueError, RecursionError):
            stored = None
        yield raw, stored if isinstance(stored, dict) and isinstance(stored.get("note"), str) else None


def _of_backup(restoration: Restoration) -> list[str]:
    if restoration.problem is None:
        return []
    if restoration.why != RESTORED:
        return [
            f"The history was not intact when this home {restoration.why} on {restoration.made}: {restoration.problem}"
        ]
    return [f"The backup of {restoration.made} was not intact when it was restored: {restoration.problem}"]


def _encoded(hashed: _Hash) -> str:
    return base64.b64encode(hashed.digest()).decode()


@lru_cache(10_000)
def _is_signed(key: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether a signature is right, forty times as fast as the verifier that needs Python alone."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
