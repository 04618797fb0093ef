"""Checking the history of a home against its signed checkpoints, and adding one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from catchment.audit.signing import Signer, TreeHead, checkpoints
from catchment.audit.verify import Replay, Tree, leaf
from catchment.ledger import Ledger, Trail
from catchment.runtime.home import Home

MOST_FINDINGS = 20


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a check of `rows` rows, of which checkpoints cover the first `signed`. `problems`: at most 20, in words."""

    rows: int
    checkpoints: int
    signed: int
    problems: tuple[str, ...]


def verify(home: Home, ledger: Ledger, *, sign: bool = False) -> Verified:
    """Check the chain of the history, the steps and states of all jobs, and the roots of all checkpoints.

    `sign`: add a checkpoint if nothing is wrong.
    """
    signer = Signer(home)
    found, problems = checkpoints(home, signer)
    ahead = list(found)
    tree, replay = Tree(), Replay()
    with ledger.trail() as trail:
        for row, _ in _grown(trail, tree, problems.append):
            if wrong := replay.follow(row):
                problems.append(f"The history is not possible: {wrong}")
            while ahead and ahead[0].size == tree.size:
                problems += _compared(ahead.pop(0), tree)
        problems += [
            f"Job {job['id']} is {job['state']}, and {replay.state(job['id']) or 'unknown'} by its history"
            for job in trail.jobs()
            if job["state"] != replay.state(job["id"])
        ]
    problems += [
        f"The history ended at row {one.size} when it was signed, and ends at row {tree.size}"
        for one in ahead
        if one.size
    ]
    if sign and not problems:
        signer.remember(tree.size, tree.root())
    signed = min(max((one.size for one in found), default=0), tree.size)
    return Verified(tree.size, len(found), signed, tuple(problems[:MOST_FINDINGS]))


def rotate(home: Home, ledger: Ledger) -> Signer:
    """Replace the key of a home, with a checkpoint that both keys vouch for. Return the new signer."""
    tree = Tree()
    with ledger.trail() as trail:
        for _ in _grown(trail, tree, lambda _problem: None):
            pass
    return Signer(home).rotate(tree.size, tree.root())


def _grown(trail: Trail, tree: Tree, report: Callable[[str], None]) -> Iterator[tuple[list[Any], bytes]]:
    """Yield the rows of the history and their hashes; each is in the tree by then."""
    for row, proof in trail.history(report):
        tree.add(leaf(proof))
        yield row, proof


def _compared(one: TreeHead, tree: Tree) -> list[str]:
    if tree.root() == one.root:
        return []
    return [f"The first {one.size} rows of the history are not those that were signed"]
