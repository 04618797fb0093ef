"""Checking the history of a home against its signed checkpoints, and adding one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catchment.audit.signing import Signer, TreeHead, checkpoints
from catchment.audit.tree import Tree
from catchment.audit.verify import ERASED, FIELDS, Replay
from catchment.errors import Refused
from catchment.ledger import Ledger, Trail
from catchment.runtime.home import Home

_MOST_FINDINGS = 20
_EVENT = FIELDS.index("event")


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a check of `rows` rows, of which checkpoints cover the first `signed`, and `erased` have only their hashes.

    `problems`: at most 20, in words.
    """

    rows: int
    checkpoints: int
    signed: int
    erased: int
    problems: tuple[str, ...]


def verify(home: Home, ledger: Ledger, *, sign: bool = False) -> Verified:
    """Check the chain of the history, the steps and states of all jobs, and the roots of all checkpoints.

    `sign`: add a checkpoint if nothing is wrong.
    """
    signer = Signer(home)
    found, tree, _ = _checked(home, ledger, signer)
    if sign and not found.problems:
        signer.remember(tree.size, tree.root())
    return found


def erase(home: Home, ledger: Ledger, before: datetime, actor: str, reason: str) -> int:
    """Empty the rows about earlier versions of items from before a time; their hashes stay. Return their number.

    A checkpoint that allows it is signed first. Raises Refused if the history is broken.
    """
    signer = Signer(home)
    found, tree, erased_to = _checked(home, ledger, signer)
    if found.problems:
        raise Refused(f"audit: the history is broken ({found.problems[0]}); nothing was erased")
    number, last = ledger.history.erasable(before)
    if number == 0:
        return 0
    signer.remember(tree.size, tree.root(), (found.erased + number, max(last, erased_to)))
    return ledger.history.erase(before, actor, reason)


def rotate(home: Home, ledger: Ledger) -> Signer:
    """Replace the key of a home, with a checkpoint that both keys vouch for. Return the new signer."""
    signer = Signer(home)
    _, tree, _ = _checked(home, ledger, signer)
    return signer.rotate(tree.size, tree.root())


def _checked(home: Home, ledger: Ledger, signer: Signer) -> tuple[Verified, Tree, int]:
    with ledger.trail() as trail:
        return checked(home, trail, signer)


def checked(
    home: Home,
    trail: Trail,
    signer: Signer,
    show: Callable[[Sequence[Any], Sequence[bytes]], Sequence[bool]] | None = None,
) -> tuple[Verified, Tree, int]:
    """Return the result of a check, the tree, and the last row that may be erased.

    `show` sees the rows and their hashes in parts, and returns which of them a bundle shows.
    """
    found, problems = checkpoints(home, signer)
    ahead = list(found)
    allowed = max(found, key=lambda one: one.erased, default=TreeHead(0, b""))
    tree, replay = Tree(), Replay(whole=not allowed.erased)
    erased = 0

    def report(problem: str) -> None:
        if len(problems) < _MOST_FINDINGS:
            problems.append(problem)

    for rows, proofs in trail.history(report):
        for number in [row[0] for row in rows if row[_EVENT] == ERASED]:
            erased += 1
            if erased > allowed.erased or number > allowed.erased_to:
                report(f"Row {number} of the history was erased without a signature")
        for wrong in replay.follow(rows):
            report(f"The history is not possible: {wrong}")
        shown = show(rows, proofs) if show else [False] * len(rows)
        before = tree.size
        while ahead and ahead[0].size <= before + len(proofs):
            size, root = ahead[0].size, ahead.pop(0).root
            part = slice(tree.size - before, size - before)
            tree.extend(proofs[part], shown[part])
            if tree.root() != root:
                report(f"The first {size} rows of the history are not those that were signed")
        tree.extend(proofs[tree.size - before :], shown[tree.size - before :])
    for job, state in trail.job_states():
        if objection := replay.objection(job, state):
            report(objection.capitalize())
    problems += [
        f"The history ended at row {one.size} when it was signed, and ends at row {tree.size}"
        for one in ahead
        if one.size
    ]
    signed = min(max((one.size for one in found), default=0), tree.size)
    verified = Verified(tree.size, len(found), signed, erased, tuple(problems[:_MOST_FINDINGS]))
    return verified, tree, allowed.erased_to
