"""Verification of a source: compares source, ledger and library item by item, and repairs differences.

A dry run that compares contents (`catchment.sync.plan`) checks the source, `catchment.ledger.admin.proof` the ledger, and a
second extraction the chunks. A deep proof also parses a random sample again and compares the text, because the stored hash
covers the bytes at the source, not the text derived from them.
"""

from __future__ import annotations

import hashlib
import math
import os
import pickle
import random
import time
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
from catchment.contracts import Connected, Connector, Unhurried
from catchment.errors import ItemError, SourceError, Stopped
from catchment.ledger import (
    ItemStatus,
    Kept,
    Ledger,
    PlannedAction,
    Sample,
    Source,
    Step,
    Stored,
    in_parts,
    storable_text,
)
from catchment.model import Root, Tombstone, fingerprint
from catchment.parser_pool import Failed, ParserPool
from catchment.runtime import heartbeat, process
from catchment.settings import Home, Limits, Policy
from catchment.sync.discovery import recordable
from catchment.sync.plan import Plan, make_plan
from catchment.sync.preflight import let_parse, paced

_PRESENT = f"{NORMALIZER}.{EXTRACTOR} "
"""Prefix of the `normalizer` of contents made by the present code."""


class Flaw(StrEnum):
    """A way in which the library differs from the source."""

    MISSING = "missing"
    STALE = "stale"
    GHOST = "ghost"
    LOST = "lost"
    DAMAGED = "damaged"
    UNREADABLE = "unreadable"
    WAITING = "waiting"


_FLAWS = {
    PlannedAction.ADD: (Flaw.MISSING, "unknown to the ledger"),
    PlannedAction.RETURN: (Flaw.MISSING, "restored at the source"),
    PlannedAction.CHANGE: (Flaw.STALE, "changed at the source"),
    PlannedAction.MOVE: (Flaw.STALE, "moved"),
    PlannedAction.RELABEL: (Flaw.STALE, "listed attributes changed"),
    PlannedAction.SKIP: (Flaw.STALE, "no longer selected"),
    PlannedAction.DELETE: (Flaw.GHOST, "deleted at the source"),
    PlannedAction.HOLD: (Flaw.GHOST, "deleted at the source, deletion held"),
    PlannedAction.FAIL: (Flaw.UNREADABLE, "cannot be listed"),
}


_QUEUED = "queued"
_WHY_LOST = "missing in the library"
_WHY_DAMAGED = "chunks differ from the text"
_WHY_ALTERED = "text differs from a fresh parse"
_SAMPLE = 200
_SAMPLE_AT_ONCE = 20
"""Maximum number of items with text and bytes in memory at once."""


@dataclass(frozen=True, slots=True)
class ProofFinding:
    """An item whose state in the library differs from the source, and the reason."""

    flaw: Flaw
    item: str
    why: str


@dataclass(frozen=True, slots=True)
class FolderProof:
    """Item counts of one folder, mailbox or repository: at the source, in the ledger and in the library, with its flaws.

    Attributes:
        set_apart: Items that intentionally have no document, or were kept by a user's decision.
        digest: Hash of the locations and contents if ledger and library agree, else None.
        unknown: True if the folder, or one above it, cannot be listed: `source` counts the items of the last listing.
    """

    name: str
    source: int
    ledger: int
    library: int
    set_apart: int
    flaws: Mapping[Flaw, int]
    digest: str | None
    unknown: bool


@dataclass(frozen=True, slots=True)
class Proven:
    """Result of a proof. `index` lists problems of the search index as sentences."""

    source: str
    folders: tuple[FolderProof, ...]
    findings: tuple[ProofFinding, ...]
    index: tuple[str, ...]
    plan: Plan
    unsound: frozenset[int]
    """Items that must be read again."""
    damaged: frozenset[int]
    """Contents with chunks that do not match their text, or with a text that differs from a new parse."""
    texts: int = 0
    """Number of texts compared with a new parse."""

    @property
    def holds(self) -> bool:
        """True if the library matches the source completely."""
        return not self.findings and not self.index


def prove(
    home: Home,
    ledger: Ledger,
    source: Source,
    connector: Connector,
    policy: Policy,
    *,
    deep: bool = False,
    seconds: float | None = None,
) -> Proven:
    """Compare a source with the ledger and the library. Reads the whole source and changes nothing.

    Raises the exceptions of `make_plan`.

    Args:
        deep: Also parse a random sample of up to 200 items again and compare the text.
        seconds: Time limit, checked until all chunks are compared.
    """
    ends = math.inf if seconds is None else time.monotonic() + seconds
    plan = make_plan(home, ledger, source, connector, policy, deep=True, seconds=seconds)
    stored = ledger.proof.items(source.id)
    damaged = frozenset(content.id for content in _contents(ledger, source, ends) if not _is_sound(content))
    given_up = {item.locator: fingerprint(item.given_up) for item in stored if item.given_up}
    as_given_up = {
        item for _, item, version in plan.reports if item in given_up and fingerprint(version) == given_up[item]
    }
    steps = [step for step in plan.steps if step.action is not PlannedAction.CHANGE or step.item not in as_given_up]
    different = {step.item: step for step in steps} | {step.was: step for step in steps if step.was is not None}
    waiting = {item.locator for item in stored if item.status is ItemStatus.WAITING}
    findings = [_different(step, waiting) for step in steps]
    whole = [item.id for item in stored if item.status is ItemStatus.STORED and item.locator not in different]
    sample = random.sample(whole, min(_SAMPLE, len(whole))) if deep else []
    texts, altered = _parsed_afresh(ledger, source, connector, policy, sample)
    unsound = set()
    for item in stored:
        if item.locator in different:
            continue
        if item.status is ItemStatus.LOST or item.content_id in damaged | altered:
            unsound.add(item.id)
            is_lost = item.status is ItemStatus.LOST
            problem = _WHY_LOST if is_lost else _WHY_ALTERED if item.content_id in altered else _WHY_DAMAGED
            findings.append(ProofFinding(Flaw.LOST if is_lost else Flaw.DAMAGED, item.locator, problem))
        elif item.unread is not None:
            # A listing does not repeat a known failure.
            findings.append(ProofFinding(Flaw.UNREADABLE, item.locator, item.unread))
        elif item.status is ItemStatus.WAITING:
            findings.append(ProofFinding(Flaw.WAITING, item.locator, _QUEUED))
        elif item.status is ItemStatus.HELD:
            # Inside of another file: a plan has only the outer one.
            findings.append(ProofFinding(Flaw.GHOST, item.locator, _FLAWS[PlannedAction.HOLD][1]))
    if isinstance(connector, Unhurried):
        items = {finding.item for finding in findings}
        unread = {item: reason for item, reason in connector.left().items() if item not in items}
        findings += [ProofFinding(Flaw.UNREADABLE, item, reason) for item, reason in unread.items()]
    folders = tuple(_folders(stored, plan.steps, findings))
    index = tuple(ledger.proof.index(source.id))
    return Proven(source.name, folders, tuple(findings), index, plan, frozenset(unsound), damaged | altered, texts)


def repair(ledger: Ledger, source: Source, proven: Proven, actor: str) -> int:
    """Queue missing, stale, lost and damaged items, and delete ghosts under the guard against mass deletion.

    Rebuilds an incomplete search index. Returns the number of held deletions. Raises TryAgain while a sync is running.
    """
    sync = ledger.syncs.begin(
        source.id, run=None, owner=process.identity(), code_version=__version__, alive=ledger.alive
    )
    try:
        if proven.index:
            ledger.proof.rebuild_index()
        ledger.proof.read_again(sync.id, proven.unsound, proven.damaged, actor)
        roots = next((change.identities for change in proven.plan.changes if isinstance(change, Root)), {})
        changed_roots = ledger.sources.changed_roots(sync.id, roots)
        # Marks that have changed since are outdated; invalidate them, so that their folders are listed again.
        marks = ledger.intake.known(source.id).marks()
        outdated = {key: None for key, value in proven.plan.marks.items() if marks.get(key) != value}
        ledger.intake.record(sync.id, (), outdated)
        # Deletions first, because moves are recognized by them.
        for part in recordable(sorted(proven.plan.changes, key=lambda change: not isinstance(change, Tombstone))):
            ledger.intake.record(sync.id, part, {})
        settled = ledger.intake.settle(sync.id, changed_roots=changed_roots)
    except BaseException:
        ledger.syncs.end(sync.id, "cancelled", {})
        raise
    ledger.syncs.end(sync.id, "completed", {"deleted": settled.deleted, "held": settled.held})
    return settled.held


def _different(step: Step, waiting: Collection[str]) -> ProofFinding:
    if step.action is PlannedAction.CHANGE and step.item in waiting:
        return ProofFinding(Flaw.WAITING, step.item, _QUEUED)
    flaw, problem = _FLAWS[step.action]
    return ProofFinding(flaw, step.item, f"{problem} ({step.why or step.was})" if step.why or step.was else problem)


def _parsed_afresh(
    ledger: Ledger, source: Source, connector: Connector, policy: Policy, item_ids: Sequence[int]
) -> tuple[int, frozenset[int]]:
    """Parse items again. Return the number of texts compared, and the contents whose text differs.

    Items that cannot be read now or have changed are not compared; a sync detects them.
    """
    compared, altered = 0, set()
    pickled = pickle.dumps(connector)
    with paced(connector, ledger, source), ParserPool(min(policy.parsers, os.cpu_count() or 1)) as pool:
        let_parse(connector, pool, policy.limits)
        for part in in_parts(item_ids, _SAMPLE_AT_ONCE):
            samples = ledger.proof.samples(part)
            tasks = list(_fetched(connector, pickled, samples, policy.limits))
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
                heartbeat.report("parsing", compared, len(item_ids))
                if storable_text(decode_document(fresh.document).text) != sample.text:
                    altered.add(sample.content_id)
    heartbeat.report("parsing", 1)
    return compared, frozenset(altered)


def _fetched(
    connector: Connector, pickled: bytes, samples: Sequence[Sample], limits: Limits
) -> Iterator[tuple[Sample, ReadTask]]:
    if isinstance(connector, Connected):
        connector.expect([sample.carrier or sample.item for sample in samples])
    for sample in samples:
        with suppress(ItemError):
            raw = None if connector.fetch_in_parser else connector.fetch(sample.carrier or sample.item)
            yield sample, ReadTask(sample.item, pickled, raw, carrier=sample.carrier, limits=limits)


def _contents(ledger: Ledger, source: Source, ends: float) -> Iterator[Kept]:
    for part in ledger.proof.contents(source.id):
        for content in part:
            if time.monotonic() > ends:
                raise Stopped("stopped at its time limit")
            yield content


def _is_sound(content: Kept) -> bool:
    """Return whether a content has exactly the chunks of its text."""
    document = content.document
    # For text that was not stored verbatim, or made by other code, only the bounds can be checked.
    if not content.normalizer.startswith(_PRESENT) or "\ufffd" in document.text:
        return all(0 <= chunk.start <= chunk.end <= len(document.text) for chunk in content.chunks)
    return extract(document).chunks == content.chunks


# Folders


def _folders(
    stored: Sequence[Stored], steps: Collection[Step], findings: Sequence[ProofFinding]
) -> Iterable[FolderProof]:
    containers = {item.locator: item.container for item in stored} | {step.item: step.container for step in steps}
    by_folder: defaultdict[str, list[Stored]] = defaultdict(list)
    for item in stored:
        by_folder[item.container].append(item)
    flaws: defaultdict[str, defaultdict[Flaw, int]] = defaultdict(lambda: defaultdict(int))
    for finding in findings:
        # An address that was never read has no folder.
        flaws[containers.get(finding.item, "")][finding.flaw] += 1
    at_source = _at_source(stored, steps)
    unlisted = tuple(f.item for f in findings if f.flaw is Flaw.UNREADABLE and f.item.endswith("/"))
    for name in sorted({*by_folder, *flaws, *at_source}):
        items = by_folder[name]
        expected = _digest((item.locator, item.expected) for item in items)
        actual = _digest((item.locator, item.found) for item in items)
        yield FolderProof(
            name=name,
            source=at_source.get(name, 0),
            ledger=sum(item.at_source for item in items),
            library=sum(item.found is not None for item in items),
            set_apart=sum(item.status in _APART for item in items),
            flaws=dict(flaws[name]),
            digest=expected if expected == actual else None,
            unknown=f"{name}/".startswith(unlisted),
        )


def _digest(contents: Iterable[tuple[str, str | None]]) -> str:
    """Return a short hash of locators and contents, independent of their order; "" if there are none."""
    rows = sorted(f"{place}\0{content}" for place, content in contents if content is not None)
    return hashlib.sha256("\n".join(rows).encode("utf-8", "surrogateescape")).hexdigest()[:12] if rows else ""


_APART = frozenset({ItemStatus.SKIPPED, ItemStatus.QUARANTINED, ItemStatus.SET_ASIDE, ItemStatus.KEPT})


def _at_source(stored: Sequence[Stored], steps: Iterable[Step]) -> dict[str, int]:
    """Return the number of items per folder at the source: the ledger's items, updated by the listing."""
    present = {item.locator: item.container for item in stored if item.at_source}
    for step in steps:
        if step.was is not None:
            present.pop(step.was, None)
        if step.action in (PlannedAction.DELETE, PlannedAction.HOLD):
            present.pop(step.item, None)
        else:
            present[step.item] = step.container
    counts: defaultdict[str, int] = defaultdict(int)
    for container in present.values():
        counts[container] += 1
    return dict(counts)
