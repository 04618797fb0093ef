"""Checking the history of a home against its signed checkpoints, and adding one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from catchment.audit.signed_log import (
    Restoration,
    Standing,
    TreeHead,
    digest_of_rows,
    in_words,
    other_home,
    parts_of,
    read,
    standing_of,
)
from catchment.audit.signing import log_and_key, signing
from catchment.audit.tree import Tree
from catchment.audit.verify import ERASED, FIELDS, RESTORED, Replay
from catchment.errors import Refused, TryAgain
from catchment.ledger import Ledger, Trail
from catchment.runtime.home import Home

_MOST_FINDINGS = 20
_EVENT = FIELDS.index("event")


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a check of `rows` rows, of which checkpoints cover the first `signed`, and `erased` have only their hashes.

    `restored`: the restores that led to this history. `problems`: at most 20, in words. `is_older`: they are only that the
    history ends before rows that were signed, as after an older copy of the ledger was put in its place.
    """

    rows: int
    checkpoints: int
    signed: int
    erased: int
    restored: tuple[Restoration, ...]
    problems: tuple[str, ...]
    is_older: bool


def verify(home: Home, ledger: Ledger, *, sign: bool = False) -> Verified:
    """Check the chain of the history, the steps and states of all jobs, and the roots of all checkpoints.

    `sign`: add a checkpoint if no problem is found. Raises TryAgain if the library was restored meanwhile.
    """
    lines, key = log_and_key(home)
    verified, now, _ = _checked(ledger, lambda trail: standing(trail, lines, key))
    if sign and not verified.problems:
        with signing(home, since=lines) as signer:
            signer.remember(now)
    return verified


def erase(home: Home, ledger: Ledger, before: datetime, actor: str, reason: str) -> int:
    """Empty the rows about earlier versions of items from before a time; their hashes stay. Return their number.

    A checkpoint that allows it is signed first. Raises Refused if the history is broken, or if hosts share it: each has a key,
    and would miss these rows. Raises TryAgain if it was erased or restored meanwhile.
    """
    ledger.require_owner(alone=True)
    lines, key = log_and_key(home)
    verified, now, _ = _checked(ledger, lambda trail: standing(trail, lines, key))
    if verified.problems:
        raise Refused(f"audit: the history is broken ({verified.problems[0]}); nothing was erased")

    def permit(present: Sequence[int], permitted: Sequence[int]) -> None:
        rows = digest_of_rows(present)
        if (rows,) != now.erased_rows:
            raise TryAgain("audit: another process erased rows meanwhile; try again")
        both = (digest_of_rows(permitted), rows)
        with signing(home, since=lines) as signer:
            signer.remember(replace(now, erased=len(permitted), erased_to=permitted[-1], erased_rows=both))

    return ledger.history.erase(before, actor, reason, permit)


def sign_restore(
    home: Home,
    copy: Ledger,
    backup_log: bytes,
    at: datetime | None,
    replaced: int,
    actor: str,
    reason: str,
) -> tuple[Restoration, TreeHead]:
    """Add a restore to the history of a copy that is about to replace the ledger, and sign it.

    If the restore is killed before it replaces the ledger, the result of `verify` does not change. Pass the returned checkpoint
    to `confirm_restore` when the ledger is replaced.

    `backup_log`: the checkpoints of the backup. Those of another home are kept, too. `at`: the time of the backup, if known.
    `replaced`: the number of rows of the replaced history, 0 if unknown.

    Raises HomeUnavailable.
    """
    home_log, key = log_and_key(home)
    other = other_home(backup_log, home_log, key)
    verified, now, tree = _checked(copy, lambda trail: _of_backup(trail, backup_log, home_log, other))
    if at is None:
        at = max((event.at for event in copy.history.trail(1, actor="")), default=copy.now())
    time = f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    replaced = replaced or max((line.head.size for line in read(home_log)), default=0)
    facts = in_words(time, verified.rows, replaced, verified.signed, other)
    copy.history.note(RESTORED, actor, reason, fact=facts)
    with copy.trail() as trail:
        row = trail.proof(verified.rows + 1)
    tree.extend([row], [False])
    now = replace(now, size=tree.size, root=tree.root())
    problem = verified.problems[0] if verified.problems else None
    with signing(home, is_restore=True) as signer:
        signer.take_over(backup_log)
        if other and {line.key for line in read(backup_log)} & {line.key for line in read(home_log)}:
            problem = (
                problem or "its checkpoints are by a key that this home has replaced, and not among those of this home"
            )
        restored = Restoration(time, verified.rows, replaced, verified.signed, row.hex(), other, problem)
        signer.remember(now, restored)
    return restored, now


def confirm_restore(home: Home, head: TreeHead) -> None:
    """Sign that a restore has replaced the ledger. Before that, a ledger without it is valid, too: the restore may be killed.

    Raises HomeUnavailable.
    """
    with signing(home) as signer:
        signer.remember(head)


def take_up(home: Home, ledger: Ledger, why: str) -> None:
    """Sign the history that this home works with from now on, because it joined hosts, left them or adopted a ledger.

    If the earlier checkpoints are about another history, as after a restore, the new checkpoint records this, and permits the
    rows that are erased now. `why`: the past participle.

    Raises TryAgain after a restore meanwhile, ConfigError, HomeUnavailable.
    """
    lines, key = log_and_key(home)
    verified, now, _ = _checked(ledger, lambda trail: standing(trail, lines, key))
    restoration = None
    if verified.problems:
        verified, now, _ = _checked(ledger, lambda _: Standing())
        with ledger.trail() as trail:
            row = trail.proof(verified.rows).hex()
        time = f"{ledger.now().astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        replaced = max((line.head.size for line in read(lines)), default=0)
        problem = verified.problems[0] if verified.problems else None
        restoration = Restoration(time, verified.rows - 1, replaced, 0, row, None, problem, why)
    with signing(home, since=lines, is_restore=True) as signer:
        signer.remember(now, restoration)


def standing(trail: Trail, lines: bytes, key: str) -> Standing:
    """Return the checkpoints of a home that its history must match. `lines`, `key`: see `signing.log_and_key`."""
    return standing_of(read(lines), key, _in_place(trail))


def _in_place(trail: Trail) -> Callable[[Restoration], bool]:
    return lambda restored: trail.proof(restored.rows + 1).hex() == restored.row


def _of_backup(trail: Trail, backup_log: bytes, home_log: bytes, other: str | None) -> Standing:
    """Return the checkpoints that a backup must agree with: its own, and those of this home about the same rows.

    After each restore, this home has signed another part of histories. The backup is from the last part with which it agrees. A
    backup of another home (`other`) agrees with it up to the restore or join with which that home took the history over.
    """
    its = standing(trail, backup_log, read(backup_log)[-1].key) if backup_log else Standing()
    parts = parts_of(home_log)
    tree, agreed = Tree(), set[TreeHead]()
    heads = {line.head for part in parts for line in part if line.head.size}
    ahead = sorted(heads, key=lambda head: head.size)
    for _, proofs in trail.history(lambda _problem: None) if ahead else ():
        agreed |= {head for head, root in _passed(tree, ahead, proofs) if head.root == root}
    number = max((n for n, part in enumerate(parts) if agreed & {line.head for line in part}), default=None)
    if other and number is None:
        return its
    lines = [line for part in (parts if number is None else parts[: number + 1]) for line in part]
    most = max((restored.rows for restored in its.restored), default=0) if other else trail.length
    home_standing = standing_of(lines, lines[-1].key, _in_place(trail)) if lines else Standing()
    known = {head for head in home_standing.heads if head.size <= most}
    problems = () if other else home_standing.inherited
    return replace(
        its, heads=tuple(sorted({*its.heads, *known}, key=lambda head: head.size)), problems=(*its.problems, *problems)
    )


def _checked(ledger: Ledger, of: Callable[[Trail], Standing]) -> tuple[Verified, TreeHead, Tree]:
    with ledger.trail() as trail:
        return checked(trail, of(trail))


def checked(
    trail: Trail,
    standing: Standing,
    show: Callable[[Sequence[Any], Sequence[bytes]], Sequence[bool]] | None = None,
) -> tuple[Verified, TreeHead, Tree]:
    """Return the result of a check, the head to sign, which permits to erase the rows that are erased, and the tree.

    `show` sees the rows and their hashes in parts, and returns which of them a bundle shows.
    """
    problems = list(standing.problems)
    ahead = list(standing.heads)
    allowed = standing.permitted
    tree, replay = Tree(), Replay()
    erased: list[int] = []

    def report(problem: str) -> None:
        if len(problems) < _MOST_FINDINGS:
            problems.append(problem)

    for rows, proofs in trail.history(report):
        for number in [row[0] for row in rows if row[_EVENT] == ERASED]:
            erased.append(number)
            replay.is_whole = False
            # Without a checkpoint, the former rows of the history are unknown.
            if standing.heads and (len(erased) > allowed.erased or number > allowed.erased_to):
                report(f"Row {number} of the history was erased without a signature")
        for wrong in replay.follow(rows):
            report(f"The history is not possible: {wrong}")
        for head, root in _passed(tree, ahead, proofs, show(rows, proofs) if show else None):
            if head.root != root:
                report(f"The first {head.size} rows of the history are not those that were signed")
    erased_rows = digest_of_rows(erased)
    if erased and not standing.permits(erased_rows):
        report("The erased rows of the history are not those that may be erased")
    for job, state in trail.job_states():
        if objection := replay.objection(job, state):
            report(objection.capitalize())
    is_older = bool(ahead) and not problems
    for head in ahead:
        report(f"The history ended at row {head.size} when it was signed, and ends at row {tree.size}")
    signed = min(max((head.size for head in standing.heads), default=0), tree.size)
    verified = Verified(
        tree.size, len(standing.heads), signed, len(erased), standing.restored, tuple(problems), is_older
    )
    last = erased[-1] if erased else 0
    return verified, TreeHead(tree.size, tree.root(), len(erased), last, (erased_rows,)), tree


def _passed(
    tree: Tree, ahead: list[TreeHead], proofs: Sequence[bytes], shown: Sequence[bool] | None = None
) -> list[tuple[TreeHead, bytes]]:
    """Append rows to the tree. Remove from `ahead` the checkpoints on the way, and return them with the roots there."""
    shown = shown or [False] * len(proofs)
    before, passed = tree.size, []
    while ahead and ahead[0].size <= before + len(proofs):
        part = slice(tree.size - before, ahead[0].size - before)
        tree.extend(proofs[part], shown[part])
        passed.append((ahead.pop(0), tree.root()))
    tree.extend(proofs[tree.size - before :], shown[tree.size - before :])
    return passed
