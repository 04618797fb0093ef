"""Proving a source: what it has, what the ledger says, and what the library holds, compared item by item; and mending it.

A rehearsal that compares contents (`catchment.sync.plan`) checks the source, `catchment.ledger.admin.proof` the ledger, and a
second extraction the passages of each content. A deep proof also parses a sample of the items afresh and compares
their texts: the text of a content may be altered while its hash, which is that of the bytes at the source, is not.
"""

from __future__ import annotations

import os
import pickle
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from catchment import __version__
from catchment.content.codec import decode_document
from catchment.content.extract import EXTRACTOR, extract
from catchment.content.normalize import NORMALIZER
from catchment.content.parsing import Read, ReadTask, read
from catchment.contracts import Connected, Connector
from catchment.errors import ItemError, SourceError
from catchment.ledger import Ledger, Source
from catchment.ledger.admin.plan import PlannedAction, Step
from catchment.ledger.admin.proof import ItemStatus, Kept, Sample, Stored, digest
from catchment.ledger.db.job_states import in_parts
from catchment.ledger.library.contents import storable_text
from catchment.model import Root, Tombstone, fingerprint
from catchment.parser_pool import Failed, ParserPool
from catchment.runtime import process
from catchment.settings import Home, Policy
from catchment.sync.discovery import recordable
from catchment.sync.plan import Plan, make_plan
from catchment.sync.preflight import paced

_PRESENT = f"{NORMALIZER}.{EXTRACTOR} "
"""How the normalizer of a content begins that the present code has made."""


class Flaw(StrEnum):
    """In what the library is not what the source is."""

    MISSING = "missing"
    STALE = "stale"
    GHOST = "ghost"
    LOST = "lost"
    DAMAGED = "damaged"
    UNREADABLE = "unreadable"
    WAITING = "waiting"


_FLAWS = {
    PlannedAction.ADD: (Flaw.MISSING, "the ledger does not know it"),
    PlannedAction.RETURN: (Flaw.MISSING, "it is back at the source"),
    PlannedAction.CHANGE: (Flaw.STALE, "it is another at the source"),
    PlannedAction.MOVE: (Flaw.STALE, "it lay elsewhere"),
    PlannedAction.RELABEL: (Flaw.STALE, "what the listing says of it changed"),
    PlannedAction.SKIP: (Flaw.STALE, "it is not wanted any more"),
    PlannedAction.DELETE: (Flaw.GHOST, "it is gone at the source"),
    PlannedAction.HOLD: (Flaw.GHOST, "it is gone at the source, and its deletion is held"),
    PlannedAction.FAIL: (Flaw.UNREADABLE, "it cannot be looked at"),
}


_QUEUED = "it is in the queue"
_WHY_LOST = "the library does not have what the ledger says"
_WHY_DAMAGED = "its passages are not those of its text"
_WHY_ALTERED = "its text is not that of a fresh parse"
_SAMPLE = 200
_SAMPLE_AT_ONCE = 20
"""Items whose texts and bytes are in memory together."""


@dataclass(frozen=True, slots=True)
class ProofFinding:
    """One item that is not in the library as it is at the source, and why."""

    flaw: Flaw
    item: str
    why: str


@dataclass(frozen=True, slots=True)
class FolderProof:
    """One folder, mailbox or repository: how many items it has at the source, in the ledger, in the library, and its flaws.

    `set_apart` are items that are rightly no documents, or were kept by a person's decision. `digest` is a hash over the places
    and contents that ledger and library agree on; None where they differ.
    """

    name: str
    source: int
    ledger: int
    library: int
    set_apart: int
    flaws: Mapping[Flaw, int]
    digest: str | None


@dataclass(frozen=True, slots=True)
class Proven:
    """What was compared and found. `index` tells in sentences what search does not find."""

    source: str
    folders: tuple[FolderProof, ...]
    findings: tuple[ProofFinding, ...]
    index: tuple[str, ...]
    plan: Plan
    unsound: frozenset[int]
    """The items that have to be read again."""
    damaged: frozenset[int]
    """The contents whose passages are not those of their text, or whose text is not that of a fresh parse."""
    texts: int = 0
    """How many texts were compared with a fresh parse."""

    @property
    def holds(self) -> bool:
        """Whether the library has all that the source has, as it is, and nothing else."""
        return not self.findings and not self.index


def prove(
    home: Home, ledger: Ledger, source: Source, connector: Connector, policy: Policy, *, deep: bool = False
) -> Proven:
    """Compare a source with the ledger and the library. Reads all of it, changes nothing. Raises as `make_plan`.

    `deep`: also parse a random sample of up to 200 items afresh, and compare their texts.
    """
    plan = make_plan(home, ledger, source, connector, policy, deep=True)
    stored = ledger.proof.items(source.id)
    damaged = frozenset(one.id for part in ledger.proof.contents(source.id) for one in part if not _is_sound(one))
    given_up = {item.locator: fingerprint(item.given_up) for item in stored if item.given_up}
    as_given_up = {
        item for _, item, version in plan.said if item in given_up and fingerprint(version) == given_up[item]
    }
    steps = [step for step in plan.steps if step.deed is not PlannedAction.CHANGE or step.item not in as_given_up]
    different = {step.item: step for step in steps} | {step.was: step for step in steps if step.was is not None}
    waiting = {item.locator for item in stored if item.standing is ItemStatus.WAITING}
    findings = [_different(step, waiting) for step in steps]
    whole = [item.id for item in stored if item.standing is ItemStatus.STORED and item.locator not in different]
    sample = random.sample(whole, min(_SAMPLE, len(whole))) if deep else []
    texts, altered = _parsed_afresh(ledger, source, connector, policy, sample)
    unsound = set()
    for item in stored:
        if item.locator in different:
            continue
        if item.standing is ItemStatus.LOST or item.content_id in damaged | altered:
            unsound.add(item.id)
            lost = item.standing is ItemStatus.LOST
            why = _WHY_LOST if lost else _WHY_ALTERED if item.content_id in altered else _WHY_DAMAGED
            findings.append(ProofFinding(Flaw.LOST if lost else Flaw.DAMAGED, item.locator, why))
        elif item.standing is ItemStatus.WAITING:
            findings.append(ProofFinding(Flaw.WAITING, item.locator, _QUEUED))
    folders = tuple(_folders(stored, plan.steps, findings))
    index = tuple(ledger.proof.index(source.id))
    return Proven(source.name, folders, tuple(findings), index, plan, frozenset(unsound), damaged | altered, texts)


def repair(ledger: Ledger, source: Source, proven: Proven, actor: str) -> int:
    """Put what is missing, stale, lost or damaged into the queue, and let go of ghosts, under the guard against mass deletion.

    Makes the index anew where it lacks something. How many deletions are held. Raises TryAgain while a sync runs.
    """
    sync = ledger.syncs.begin(
        source.id, run=None, owner=process.identity(), code_version=__version__, alive=process.alive
    )
    try:
        if proven.index:
            ledger.proof.rebuild_index()
        ledger.proof.read_again(proven.unsound, proven.damaged, actor)
        roots = [change.identity for change in proven.plan.changes if isinstance(change, Root)]
        root_changed = any(ledger.sources.root_changed(source.id, identity) for identity in roots)
        # A mark is of another time than what is recorded now: what it promised is looked at again.
        marks = ledger.intake.known(source.id).marks()
        outdated = {key: None for key, value in proven.plan.marks.items() if marks.get(key) != value}
        ledger.intake.record(sync.id, (), outdated)
        # What is gone comes first, for that is what moved things are known by.
        for part in recordable(sorted(proven.plan.changes, key=lambda change: not isinstance(change, Tombstone))):
            ledger.intake.record(sync.id, part, {})
        settled = ledger.intake.settle(sync.id, root_changed=root_changed)
    except BaseException:
        ledger.syncs.end(sync.id, "cancelled", {})
        raise
    ledger.syncs.end(sync.id, "completed", {"deleted": settled.deleted, "held": settled.held})
    return settled.held


def _different(step: Step, waiting: Collection[str]) -> ProofFinding:
    if step.deed is PlannedAction.CHANGE and step.item in waiting:
        return ProofFinding(Flaw.WAITING, step.item, _QUEUED)
    flaw, why = _FLAWS[step.deed]
    return ProofFinding(flaw, step.item, f"{why} ({step.why or step.was})" if step.why or step.was else why)


def _parsed_afresh(
    ledger: Ledger, source: Source, connector: Connector, policy: Policy, item_ids: Sequence[int]
) -> tuple[int, frozenset[int]]:
    """Parse items afresh; return how many texts were compared, and the contents whose text is another one.

    An item that cannot be read now, or has other bytes now, is not compared: a sync finds that by itself.
    """
    compared, altered = 0, set()
    pickled = pickle.dumps(connector)
    with paced(connector, ledger, source), ParserPool(min(policy.parsers, os.cpu_count() or 1)) as pool:
        for part in in_parts(item_ids, _SAMPLE_AT_ONCE):
            samples = ledger.proof.samples(part)
            tasks = list(_fetched(connector, pickled, samples))
            parsed = pool.run(read, [task for _, task in tasks], policy.limits)
            for index, outcome in parsed:
                if isinstance(outcome, Failed):
                    if isinstance(outcome.error, SourceError):
                        raise outcome.error
                    continue
                sample, fresh = tasks[index][0], Read.decode(outcome)
                if fresh.document is None or fresh.content != (sample.content_hash, sample.normalizer):
                    continue
                compared += 1
                if storable_text(decode_document(fresh.document).text) != sample.text:
                    altered.add(sample.content_id)
    return compared, frozenset(altered)


def _fetched(connector: Connector, pickled: bytes, samples: Sequence[Sample]) -> Iterator[tuple[Sample, ReadTask]]:
    if isinstance(connector, Connected):
        connector.expect([sample.item for sample in samples])
    for sample in samples:
        with suppress(ItemError):
            raw = None if connector.fetch_in_parser else connector.fetch(sample.item)
            yield sample, ReadTask(sample.item, pickled, raw)


def _is_sound(kept: Kept) -> bool:
    """Whether a content has the passages of its text, and no others."""
    document = kept.document
    # Of text that could not be kept letter by letter, and by other code, only the bounds can be looked at.
    if not kept.normalizer.startswith(_PRESENT) or "\ufffd" in document.text:
        return all(0 <= chunk.start <= chunk.end <= len(document.text) for chunk in kept.chunks)
    return extract(document).chunks == kept.chunks


# Folders


def _folders(
    stored: Sequence[Stored], steps: Collection[Step], findings: Iterable[ProofFinding]
) -> Iterable[FolderProof]:
    homes = {item.locator: item.container for item in stored} | {step.item: step.container for step in steps}
    by_folder: defaultdict[str, list[Stored]] = defaultdict(list)
    for item in stored:
        by_folder[item.container].append(item)
    flaws: defaultdict[str, defaultdict[Flaw, int]] = defaultdict(lambda: defaultdict(int))
    for finding in findings:
        flaws[homes[finding.item]][finding.flaw] += 1
    at_source = _at_source(stored, steps)
    for name in sorted({*by_folder, *flaws, *at_source}):
        mine = by_folder[name]
        said = digest((item.locator, item.expected) for item in mine)
        found = digest((item.locator, item.found) for item in mine)
        yield FolderProof(
            name=name,
            source=at_source.get(name, 0),
            ledger=sum(item.at_source for item in mine),
            library=sum(item.found is not None for item in mine),
            set_apart=sum(item.standing in _APART for item in mine),
            flaws=dict(flaws[name]),
            digest=said if said == found else None,
        )


_APART = frozenset({ItemStatus.SKIPPED, ItemStatus.QUARANTINED, ItemStatus.SET_ASIDE, ItemStatus.KEPT})


def _at_source(stored: Sequence[Stored], steps: Iterable[Step]) -> dict[str, int]:
    """How many items each folder has at the source: those of the ledger, as the listing alters them."""
    there = {item.locator: item.container for item in stored if item.at_source}
    for step in steps:
        if step.was is not None:
            there.pop(step.was, None)
        if step.deed in (PlannedAction.DELETE, PlannedAction.HOLD):
            there.pop(step.item, None)
        else:
            there[step.item] = step.container
    counts: defaultdict[str, int] = defaultdict(int)
    for container in there.values():
        counts[container] += 1
    return dict(counts)
