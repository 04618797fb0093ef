"""Checking the history of a home against its signed checkpoints, and adding one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from catchment.audit.signing import Signer, TreeHead, checkpoints
from catchment.audit.verify import ERASED, FIELDS, Replay, Tree, leaf
from catchment.errors import Refused
from catchment.ledger import Ledger
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
    """Return the result of a check, the tree, and the last row that may be erased."""
    found, problems = checkpoints(home, signer)
    ahead = list(found)
    allowed = max(found, key=lambda one: one.erased, default=TreeHead(0, b""))
    tree, replay = Tree(), Replay(whole=not allowed.erased)
    erased = 0
    with ledger.trail() as trail:
        for row, proof in trail.history(problems.append):
            tree.add(leaf(proof))
            if row[_EVENT] == ERASED:
                erased += 1
                if erased > allowed.erased or row[0] > allowed.erased_to:
                    problems.append(f"Row {row[0]} of the history was erased without a signature")
            if wrong := replay.follow(row):
                problems.append(f"The history is not possible: {wrong}")
            while ahead and ahead[0].size == tree.size:
                size, root = ahead[0].size, ahead.pop(0).root
                if tree.root() != root:
                    problems.append(f"The first {size} rows of the history are not those that were signed")
        for job in trail.jobs():
            if objection := replay.objection(job["id"], job["state"]):
                problems.append(objection.capitalize())
    problems += [
        f"The history ended at row {one.size} when it was signed, and ends at row {tree.size}"
        for one in ahead
        if one.size
    ]
    signed = min(max((one.size for one in found), default=0), tree.size)
    verified = Verified(tree.size, len(found), signed, erased, tuple(problems[:_MOST_FINDINGS]))
    return verified, tree, allowed.erased_to
