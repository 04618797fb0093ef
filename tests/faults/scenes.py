"""Scenes in which processes are killed: the actions of users and the engine on a ledger, act by act.

A killed act is repeated from its start, as a user or the next run would. A completed act is not repeated.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import sinks
from catchment.audit import chain
from catchment.content.cache import Cache
from catchment.content.parsing import CODE
from catchment.errors import LoginFailed, NotFound, NotNow, Refused, SinkUnavailable, SourceUnavailable
from catchment.ledger import Backfill, BackfillSelection, BackfillState, Incident, Ledger, Moment
from catchment.ledger.db import schema
from catchment.ledger.library.embeddings import DEFAULT_MODEL
from catchment.ledger.limits.pacing import Pacing
from catchment.model import JobState, ReplayStage
from catchment.pacing import HostLimits, RateReport
from catchment.pacing.metered import Ask, Report
from catchment.pacing.operator_rules import Rule
from catchment.runtime.process import alive, identity
from catchment.search.meaning.fill import fill
from catchment.search.meaning.models import Refusal
from catchment.settings import Policy
from catchment.sync import supply
from catchment.sync.batch import forget_done
from catchment.sync.plan import load_plan, make_plan, save_plan
from catchment.sync.preflight import WHOLE
from catchment.sync.prove import prove, repair
from catchment.sync.revoke import Extent, revoke
from catchment.views import health
from catchment.views.telemetry.gauges import sample
from console.data import backup
from deployments.actions import desk as actions
from deployments.actions import sinks as sink_actions
from tests.faults.desk import PATIENT, SOURCE, Desk, same, work_through
from tests.normalize.samples import zipped
from tests.pictures.scanned_papers import recognize
from tests.pictures.scans import Programs, png, scan, scanned

Act = Callable[[Desk], object]
NOW = timedelta(0)
_ALL = Extent(frozenset({WHOLE}), lambda _locator: True, whole=True)
_HOST = HostLimits("example.org", "ada", at_once=1)
_SINK = "copies"


@dataclass(frozen=True, slots=True)
class Scene:
    """`before` succeeds; a process is killed in one of the `acts`. Afterwards the library must equal `expected`."""

    name: str
    before: Sequence[Act]
    acts: Sequence[Act]
    expected: Callable[[Desk], Mapping[str, str]]
    quarantined: frozenset[str] = frozenset()
    unsound: bool = False
    """Whether `before` leaves a damaged ledger that the acts repair."""


def folder(desk: Desk) -> dict[str, str]:
    """Return the expected library contents: the readable papers."""
    return {
        str(file.relative_to(desk.papers)): file.read_text(encoding="utf-8")
        for file in desk.papers.rglob("*.md")
        if not file.name.startswith(("unreadable", "deadly"))
    }


def nothing(_: Desk) -> dict[str, str]:
    """Return the expected library contents of a purged source."""
    return {}


# Changes by users


def papers(desk: Desk) -> None:
    for n in range(4):
        desk.write(f"a/{n}.md", f"Paper {n} speaks of alpha{n}")
    for n in range(3):
        desk.write(f"b/{n}.md", f"Paper {n} speaks of beta{n}")
    desk.write("copy.md", "Paper 0 speaks of alpha0")


def odd_papers(desk: Desk) -> None:
    desk.write("unreadable.md", "Nobody can read this")
    if not (desk.reads / "flaky.md").exists():
        desk.write("flaky.md", "At the second try it speaks of gamma")
    (desk.papers / "empty.bin").write_bytes(bytes(range(256)) * 8)


def changes(desk: Desk) -> None:
    desk.write("a/0.md", "Paper 0 speaks of alpha0new")
    desk.rename("a/1.md", "b/moved.md")
    desk.remove("a/2.md")
    desk.write("a/new.md", "A new paper speaks of delta")
    (desk.papers / "b" / "0.md").touch()
    if (desk.papers / "b" / "1.md").exists():
        shutil.copyfile(desk.papers / "b" / "1.md", desk.papers / "b" / "one.md")
        desk.remove("b/1.md")


def sync(desk: Desk) -> None:
    desk.sync()


# Failures while jobs wait or run


def failing(desk: Desk) -> None:
    """Two papers fail on their first attempt and are retried much later."""
    for name in ("one", "two"):
        desk.write(f"flaky {name}.md", f"At the second try it speaks of {name}")
    desk.sync(PATIENT)


def changed_while_waiting(desk: Desk) -> None:
    """Papers are changed or deleted while their jobs wait for their first or a later attempt."""
    desk.write("flaky one.md", "It speaks of epsilon now")
    desk.remove("flaky two.md")
    for n in range(5):
        desk.write(f"c/{n}.md", f"Paper {n} speaks of theta{n}")
    _list(desk)
    desk.write("c/0.md", "It changed before it was read")
    desk.remove("c/1.md")
    _list(desk)


def _list(desk: Desk) -> None:
    """List the folder and leave the jobs in the queue."""
    with desk.syncing(PATIENT) as opened:
        opened.discover()
        opened.finish("completed")


def changed_at_work(desk: Desk) -> None:
    """Papers are changed, deleted or discarded while they are processed; unfinished jobs are released."""
    with desk.syncing() as opened:
        opened.discover()
        token = opened.claim(4)
        if token is None:
            return
        with desk.ledger() as ledger:
            rows = ledger.queue.jobs(state=JobState.RUNNING)
            running = sorted((row for row in rows if row.item.startswith("c/")), key=lambda row: row.item)
            ledger.queue.renew(token, [row.job for row in running], timedelta(minutes=5))
            # After many kills fewer jobs may be left.
            for row in running[:1]:
                ledger.queue.cancel(row.job, "operator", "not this one")
        for row in running[1:2]:
            desk.write(row.item, "It changed while it was read")
        opened.discover()


def written_anew(desk: Desk) -> None:
    """Every discarded paper has new text."""
    for n in (0, 2, 3, 4):
        desk.write(f"c/{n}.md", f"Paper {n} speaks of theta{n}anew")


def one_at_a_time(desk: Desk) -> None:
    """Each job is claimed alone; an item is quarantined when kills have used up its attempts."""
    for n in range(3):
        desk.write(f"c/{n}.md", f"Paper {n} speaks of kappa{n}")
    with desk.syncing() as opened:
        opened.discover()
        while (token := opened.claim(1)) is not None:
            opened.process(token)
        opened.finish("completed")


def died_with_it(desk: Desk) -> None:
    """A dead process had claimed a job alone on its last attempt."""
    desk.write("deadly.md", "Who reads it dies, it speaks of lambda")
    _list(desk)
    with desk.ledger() as ledger:
        source = desk.source(ledger)
        ledger.queue.claim(
            source.id, 1, owner="gone", jobs=[row.job for row in ledger.queue.jobs(state=JobState.PENDING)]
        )
        ledger.queue.recover(source.id, lambda owner: owner != "gone", 1)


def runner_lost(desk: Desk) -> None:
    """The runner is lost through no fault of its sources; their attempts are refunded."""
    for n in range(2):
        desk.write(f"unlucky {n}.md", f"Paper {n} was being read when the runner was killed, it speaks of nu{n}")
    _list(desk)
    with desk.ledger() as ledger:
        ledger.queue.claim(desk.source(ledger).id, 2, owner="gone")
        ledger.queue.give_back("gone", None)


# Quarantine


def quarantine_worked(desk: Desk) -> None:
    """An operator reviews each entry, adds notes and retries."""
    with desk.ledger() as ledger:
        for entry in ledger.quarantine.list():
            ledger.quarantine.note(entry.job, "looked at", "operator")
        ledger.quarantine.retry(None, "operator")


def other_settings(desk: Desk) -> None:
    (desk.aside / "settings").write_text("2")


def discarded(desk: Desk) -> None:
    """One entry is discarded, the others after an age limit."""
    with desk.ledger() as ledger:
        for entry in ledger.quarantine.list()[:1]:
            ledger.quarantine.discard([entry.job], "operator", "of no use")
        ledger.quarantine.purge(NOW, "operator")


def unreadable_papers(desk: Desk) -> None:
    for n in range(4):
        desk.write(f"unreadable {n}.md", f"Nobody reads {n}")


def readable_now(desk: Desk) -> None:
    """One paper is deleted, another one is changed but still unreadable."""
    desk.remove("unreadable 0.md")
    desk.write("unreadable 1.md", "Nobody reads this one, still")


# Deletions


def many_papers(desk: Desk) -> None:
    for n in range(14):
        desk.write(f"many/{n}.md", f"Paper {n} speaks of mu{n}")


def many_gone(desk: Desk) -> None:
    desk.remove(*(f"many/{n}.md" for n in range(14)))


def hold_applied(desk: Desk) -> None:
    with desk.ledger() as ledger, suppress(NotFound):
        ledger.intake.apply_hold(desk.source(ledger).id, "operator", "really gone")


def hold_dropped(desk: Desk) -> None:
    with desk.ledger() as ledger, suppress(NotFound):
        ledger.intake.drop_hold(desk.source(ledger).id, "operator", "wait")


# Undo


def remember_sync(desk: Desk) -> None:
    (desk.aside / "sync").write_text(str(desk.last_sync()))


def undone(desk: Desk) -> None:
    """Undo the remembered sync."""
    with desk.ledger() as ledger:
        ledger.undo.undo(int((desk.aside / "sync").read_text()), "operator", "by mistake", alive)


def undo_undone(desk: Desk) -> None:
    """Undo the undo: the latest effective one, because an undo that is killed when complete is repeated."""
    chosen = desk.aside / "undo"
    with desk.ledger() as ledger:
        if not chosen.exists():
            chosen.write_text(str(_latest(ledger, desk.source(ledger).id)))
        ledger.undo.undo(int(chosen.read_text()), "operator", "after all", alive)


def _latest(ledger: Ledger, source_id: int) -> int:
    for row in ledger.syncs.recent(source_id):
        with suppress(NotFound):
            ledger.undo.preview(row.id)
            return row.id
    raise AssertionError("there is nothing to undo")


# Embeddings


class _Lengths:
    """A model that loads at once: the length of a text is its meaning."""

    setting = DEFAULT_MODEL
    dimensions = 4

    def __init__(self, name: str) -> None:
        self.name = name

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal]:
        return [bytes((len(text) % 100, 1, 2, 3)) for text in texts]

    def query(self, text: str) -> Sequence[float]:
        return (1.0, 0.0, 0.0, 0.0)


def model_chosen(desk: Desk) -> None:
    with desk.ledger() as ledger:
        ledger.embeddings.setting = DEFAULT_MODEL


def embedded(desk: Desk) -> None:
    _embed(desk, "lengths 1")


def embedding_damaged(desk: Desk) -> None:
    with desk.ledger() as ledger, ledger._store.write() as writing:
        writing.connection.exec_driver_sql("UPDATE embeddings SET vector = x'00000000' WHERE part = 0")


def embedded_by_another_model(desk: Desk) -> None:
    _embed(desk, "lengths 2")


def _embed(desk: Desk, name: str) -> None:
    with desk.ledger() as ledger:
        counts = fill(ledger, _Lengths(name))
        assert counts.done == counts.total > 0
        searched = ledger.embeddings.searched()
        assert searched is not None
        assert searched.name.startswith(name)
        assert ledger.embeddings.counts(searched) == counts


# Files inside of files


def archive(desk: Desk) -> None:
    files = {"one.md": "One speaks of iota", "two.md": "Two speaks of kappa", "gone.md": "Gone"}
    (desk.papers / "old.zip").write_bytes(zipped(files))


def archive_changed(desk: Desk) -> None:
    """An archive is renamed and changed: a file is gone, another one is new."""
    (desk.papers / "old.zip").unlink(missing_ok=True)
    (desk.papers / "new.zip").write_bytes(zipped({"one.md": "One speaks of iota", "two.md": "Two speaks of lambda"}))


def archive_moved(desk: Desk) -> None:
    desk.rename("new.zip", "moved.zip")


def archived_texts(_: Desk) -> dict[str, str]:
    """Return the expected library contents: the archive and its files."""
    return {
        "moved.zip": "- one.md\n- two.md",
        "moved.zip!/one.md": "One speaks of iota",
        "moved.zip!/two.md": "Two speaks of lambda",
    }


# Text on pictures


def scans(desk: Desk) -> None:
    (desk.papers / "scan.pdf").write_bytes(scanned("First words", "Second words"))
    shutil.copyfile(desk.papers / "scan.pdf", desk.papers / "copy.pdf")
    (desk.papers / "photo.png").write_bytes(png(scan("A photograph of the harbour")))


def scanned_texts(_: Desk) -> dict[str, str]:
    """Return the expected library contents: the texts of the scans."""
    return {
        "scan.pdf": "First words\n\nSecond words",
        "copy.pdf": "First words\n\nSecond words",
        "photo.png": "A photograph of the harbour",
    }


def recognized(desk: Desk) -> None:
    os.environ["PATH"] = str(Programs(desk.aside / "programs").folder)
    recognize(desk.home, desk.papers)


def photo_away(desk: Desk) -> None:
    """Take a picture out of its folder before it is recognized."""
    with suppress(FileNotFoundError):
        (desk.papers / "photo.png").rename(desk.aside / "photo.png")


def photo_back(desk: Desk) -> None:
    with suppress(FileNotFoundError):
        (desk.aside / "photo.png").rename(desk.papers / "photo.png")


def recognition_chosen(desk: Desk) -> None:
    with desk.ledger() as ledger:
        ledger.recognition.setting = "eng"


# Clean-up


def upkeep(desk: Desk) -> None:
    """Run the daily clean-up a month later."""
    with desk.ledger() as ledger, closing(Cache(desk.home.cache)) as cache:
        for source in ledger.sources.all():
            ledger.sources.put(source.name, source.kind, source.priority, keep_days=0)
        ledger.intake.purge()
        ledger.undo.purge(0)
        ledger.pacing.purge()
        forget_done(cache, ledger)
        broken = len(ledger.check())
    health.LastCheck(datetime.now(UTC), broken).write(desk.home)


def vacuumed(desk: Desk) -> None:
    with desk.ledger() as ledger:
        ledger.vacuum(alive)


@contextmanager
def _newer_program() -> Iterator[None]:
    """Act as a newer program that migrates the ledger; the migration's effects are tested elsewhere."""
    revision, schema.REVISION = schema.REVISION, "9999"
    try:
        yield
    finally:
        schema.REVISION = revision


def led_forward(desk: Desk) -> None:
    with _newer_program(), desk.ledger():
        pass


# Backups


def backed_up(desk: Desk) -> None:
    desk.home.sources_file.write_text("deployments: []\n")
    copy = desk.aside / "copy.db"
    if not copy.exists():
        backup.backup(copy)


def backed_up_at_home(desk: Desk) -> None:
    backup.backup(None)


def sources_changed(desk: Desk) -> None:
    desk.home.sources_file.write_text("deployments: []\n# another\n")


def restored(desk: Desk) -> None:
    backup.restore(desk.aside / "copy.db")


def restored_by_a_newer_program(desk: Desk) -> None:
    with _newer_program():
        backup.restore(desk.aside / "copy.db")


# Plans and proofs


def planned(desk: Desk) -> None:
    with desk.ledger() as ledger:
        plan = make_plan(desk.home, ledger, desk.source(ledger), desk.connector, Policy())
    (desk.aside / "plan").write_text(save_plan(desk.home, json.dumps(plan.to_json()).encode()))


def followed(desk: Desk) -> None:
    desk.sync(plan=load_plan(desk.home, (desk.aside / "plan").read_text(), SOURCE))


def damaged(desk: Desk) -> None:
    """Damage by a bad disk: truncated chunks, a missing document, an empty index."""
    if (desk.aside / "damaged").exists():
        return
    with desk.ledger() as ledger, ledger._store.write() as writing:
        for statement in (
            "UPDATE chunks SET stop = stop - 3 WHERE content_id IN (SELECT id FROM contents WHERE text LIKE '%beta0%')",
            "INSERT INTO document_index (document_index, rowid, title, aliases, path, properties)"
            " SELECT 'delete', id, title, aliases, path, properties FROM document_names WHERE path = 'a/3.md'",
            "DELETE FROM doc_folders WHERE document_id IN (SELECT id FROM documents WHERE path = 'a/3.md')",
            "DELETE FROM documents WHERE path = 'a/3.md'",
            "INSERT INTO chunk_index (chunk_index) VALUES ('delete-all')",
        ):
            writing.connection.exec_driver_sql(statement)
    (desk.aside / "damaged").touch()


def repaired(desk: Desk) -> None:
    with desk.ledger() as ledger:
        source = desk.source(ledger)
        ledger.syncs.close_dead(alive)
        repair(ledger, source, prove(desk.home, ledger, source, desk.connector, Policy()), "operator")


def proved(desk: Desk) -> None:
    with desk.ledger() as ledger:
        assert prove(desk.home, ledger, desk.source(ledger), desk.connector, Policy()).holds


# Consent


def agreed(desk: Desk) -> None:
    with desk.ledger() as ledger:
        source = desk.source(ledger)
        ledger.consents.ask(source.id, {WHOLE})
        ledger.consents.give(source.id, {WHOLE}, "operator", datetime.now(UTC) + timedelta(days=30))


def revoked(desk: Desk) -> None:
    with desk.ledger() as ledger:
        proof = revoke(desk.home, ledger, desk.source(ledger), _ALL, "operator")
        assert proof.holds, proof


def removed(desk: Desk) -> None:
    with desk.ledger() as ledger, suppress(NotFound):
        ledger.sources.remove(SOURCE, "operator", "not wanted")


# Rules and hosts


def paused(desk: Desk) -> None:
    with desk.ledger() as ledger:
        desk.source(ledger)
        ledger.sources.pause(SOURCE, "operator", "a pause")
        ledger.throttles.put(f"source:{SOURCE}", Rule(per_hour=1_000), "operator", "gently")
        ledger.adopt("operator:anna")


def resumed(desk: Desk) -> None:
    with desk.ledger() as ledger:
        ledger.sources.resume(SOURCE, "operator")
        ledger.throttles.put(f"source:{SOURCE}", Rule(), "operator", "")


def login_failed(desk: Desk) -> None:
    """Pause the source after a refused login, unless it is paused already."""
    with suppress(NotNow), desk.syncing() as opened:
        opened.finish("failed", LoginFailed("the login was refused; renew it"))


def failed_once(desk: Desk) -> None:
    with desk.syncing() as opened:
        opened.finish("failed", SourceUnavailable("the disk is not there; mount it"))


def stopped(desk: Desk) -> None:
    """The sync is stopped midway."""
    with desk.syncing() as opened:
        opened.discover()
        if (token := opened.claim(2)) is not None:
            opened.process(token)
        opened.update_eta()
        opened.stop("an operator asked to stop it")
        opened.finish("cancelled")


def owner_died(desk: Desk) -> None:
    """Another process closes the sync of a dead owner."""
    with desk.ledger() as ledger:
        source = desk.source(ledger)
        ledger.syncs.begin(source.id, run=None, owner="gone", code_version="1", alive=alive)
        ledger.syncs.close_dead(alive)


def host_asked(desk: Desk) -> None:
    """Send requests to a host that fails, is backed off, and recovers."""
    me = identity()
    with desk.ledger() as ledger:
        pacing = ledger.pacing
        pacing.take(Ask(_HOST, SOURCE, me, 5, False), Report(), None)
        pacing.report(_HOST, Report(answers=1, rates=[RateReport(remaining=50)]))
        dead: set[str] = set()
        places = Pacing(ledger._store, pacing._monotonic, lambda who: who not in dead and (who == "gone" or alive(who)))
        places.ask(_HOST, SOURCE, "gone")
        mine, _ = places.ask(_HOST, SOURCE, me)
        dead.add("gone")
        assert places.granted(mine)
        places.release(mine)
        for _ in range(6):
            pacing.failed(_HOST, SOURCE, login=False)
        pacing.not_before(SOURCE, _HOST, me)
        pacing.succeeded(_HOST, SOURCE)
        pacing.failed(_HOST, SOURCE, login=True)
        pacing.reset(f"source:{SOURCE}", "operator")
        pacing.reset("host:example.org", "operator")


# Replays


def shelf(desk: Desk) -> None:
    for n in range(25):
        desk.write(f"shelf/{n}.md", f"Paper {n} speaks of omicron{n}")


def read_by_earlier_code(desk: Desk) -> None:
    _age(desk, 0)


def read_by_other_code(desk: Desk) -> None:
    _age(desk, 1)


def _age(desk: Desk, version: int) -> None:
    """Record this older version of the normalizer for all contents of the present one."""
    earlier = f"{version}.{CODE.partition('.')[2]}"
    with desk.ledger() as ledger, ledger._store.write() as writing:
        writing.connection.exec_driver_sql(
            f"UPDATE contents SET normalizer = replace(normalizer, '{CODE} ', '{earlier} ')"
            f" WHERE normalizer LIKE '{CODE} %%'"
        )


def replay_started(desk: Desk) -> None:
    """Plan and start a replay, pause it and resume it."""
    number = _started(desk, "replay")
    with desk.ledger() as ledger:
        if ledger.backfills.get(number).is_running:
            ledger.backfills.pause(number, "operator")
        ledger.backfills.resume(number, "operator")


def replay_fails(desk: Desk) -> None:
    """The papers cannot be read for a while, until the replay is paused for the number of its failures."""
    locked = desk.place / "locked"
    locked.touch()
    with suppress(NotNow), desk.syncing(backfill=_number(desk, "replay")) as opened:
        opened.discover()
        work_through(opened)
        opened.finish("completed")
    locked.unlink()
    same(_backfill(desk, "replay").state, BackfillState.PAUSED)


def replay_resumed(desk: Desk) -> None:
    """Retry the failed papers, and replay the others."""
    number = _number(desk, "replay")
    with desk.ledger() as ledger:
        ledger.backfills.retry(number, "operator", "they can be read again")
        if ledger.backfills.get(number).state is BackfillState.PAUSED:
            ledger.backfills.resume(number, "operator")
    with suppress(NotNow), desk.syncing(backfill=number) as opened:
        opened.discover()
        work_through(opened)
        opened.finish("completed")


def replayed(desk: Desk) -> None:
    """The replay is done, and every paper was read by the present code."""
    same(_backfill(desk, "replay").state, BackfillState.DONE)
    with desk.ledger() as ledger:
        same(ledger.backfills.outdated(CODE), {})


def replay_cancelled(desk: Desk) -> None:
    """Cancel another replay after its first batch."""
    number = _started(desk, "another")
    with suppress(NotNow), desk.syncing(backfill=number) as opened:
        opened.discover()
        if (token := opened.claim(4)) is not None:
            opened.process(token)
        opened.finish("completed")
    with desk.ledger() as ledger:
        ledger.backfills.cancel(number, "operator", "not needed")
        same(ledger.backfills.get(number).state, BackfillState.CANCELLED)
        same(ledger.backfills.unfinished(), [])


def _started(desk: Desk, name: str) -> int:
    """Plan and start a replay, and remember its number under a name."""
    with desk.ledger() as ledger:
        source, what = desk.source(ledger), BackfillSelection(ReplayStage.NORMALIZE)
        if not (desk.aside / name).exists():
            survey = ledger.backfills.survey(source.id, what, CODE)
            assert survey.total
            (desk.aside / name).write_text(str(ledger.backfills.plan(source.id, what, survey, "operator")))
        found = ledger.backfills.get(_number(desk, name))
        if found.state is BackfillState.PLANNED:
            ledger.backfills.start(found.id, found.survey.digest, "operator")
        return found.id


def _number(desk: Desk, name: str) -> int:
    return int((desk.aside / name).read_text())


def _backfill(desk: Desk, name: str) -> Backfill:
    with desk.ledger() as ledger:
        return ledger.backfills.get(_number(desk, name))


# Sinks


def _actions(desk: Desk) -> actions.Desk:
    return actions.Desk(desk.home, desk.ledger, desk.ledger)


def sink_added(desk: Desk) -> None:
    with desk.ledger() as ledger:
        is_added = bool(ledger.outbox.all())
    if not is_added:
        sink_actions.add(_actions(desk), "jsonl", str(desk.aside / _SINK), _SINK, "operator")


def delivered(desk: Desk) -> None:
    with desk.ledger() as ledger, supply.alone(desk.home, ledger.outbox.get(_SINK)):
        supply.deliver(ledger, _SINK, sinks.opened, lambda: True, supply.DeliveryCounts())
        assert ledger.outbox.get(_SINK).is_idle


def sink_away(desk: Desk) -> None:
    """Deliver while the place of the sink is away, and let it resume when it is back."""
    place, elsewhere = desk.aside / _SINK, desk.place / "elsewhere"
    if place.exists():
        place.rename(elsewhere)
    with suppress(SinkUnavailable):
        delivered(desk)
    elsewhere.rename(place)
    with desk.ledger() as ledger:
        assert ledger.outbox.get(_SINK).failures
    sink_actions.resume(_actions(desk), _SINK, "operator")


def sink_adopted(desk: Desk) -> None:
    sink_actions.adopt(_actions(desk), _SINK, "operator")


def sink_emptied(desk: Desk) -> None:
    sink_actions.rebuild(_actions(desk), _SINK, "operator")
    delivered(desk)


def sink_is_equal(desk: Desk) -> None:
    """The sink has the text of each document once."""
    lines = [json.loads(line) for file in (desk.aside / _SINK).glob("*.jsonl") for line in file.open(encoding="utf-8")]
    same(sorted(line["text"].strip() for line in lines), sorted(folder(desk).values()))
    same(sink_actions.check(_actions(desk), _SINK), supply.Differences((), (), ()))


def sink_removed(desk: Desk) -> None:
    with suppress(NotFound):
        sink_actions.remove(_actions(desk), _SINK, "operator")


# The history and the measurements


def history_erased(desk: Desk) -> None:
    with desk.ledger() as ledger:
        same(chain.verify(desk.home, ledger).problems, ())
        chain.erase(desk.home, ledger, datetime.now(UTC), "operator", "too old")
        verified = chain.verify(desk.home, ledger)
        same(verified.problems, ())
        assert verified.erased


def incident_closed(desk: Desk) -> None:
    """Open an incident, acknowledge it, and close it."""
    with desk.ledger() as ledger:
        moment = Moment(ledger.now(), "opened", "no answer")
        opened = Incident(
            0, "source.unreachable", f"source:{SOURCE}", moment.at, None, moment.text, "look at its disk", (moment,)
        )
        found, *others = ledger.incidents.open() or ledger.incidents.save([opened])
        same(others, [])
        ledger.incidents.acknowledge(found.id, "operator", "seen")
        ledger.incidents.save([replace(found, closed_at=ledger.now())])
        same(ledger.incidents.open(), [])


def measured(desk: Desk) -> None:
    """Store the figures of a minute, and merge those of earlier ones."""
    with desk.ledger() as ledger:
        sample(ledger, desk.home)
    with closing(Ledger.open(desk.home, clock=lambda: time.time() + 86_400)) as ledger:
        before = ledger.measures.totals()
        ledger.measures.roll()
        same(ledger.measures.totals(), before)


def moved(desk: Desk) -> None:
    """Copy the ledger into another database."""
    with desk.ledger() as ledger:
        address = f"sqlite:///{desk.aside / 'moved.db'}"
        # A killed move may have been complete.
        with suppress(Refused):
            ledger.move(address)
        with closing(Ledger.inspect(address)) as copy:
            same(copy.check(deep=True), [])
            same(copy.history.latest(), ledger.history.latest())


def prioritized(desk: Desk) -> None:
    """An operator requests a sync, in which the papers that wait for their retry are first."""
    with desk.ledger() as ledger:
        for row in ledger.queue.jobs(state=JobState.RETRYING):
            ledger.queue.prioritize(row.job, "operator", "needed now")
        ledger.sources.note(SOURCE, "sync requested", "operator")


SCENES = (
    Scene("first ingest", (papers, odd_papers), (sync,), folder, frozenset({"unreadable.md"})),
    Scene("changes", (papers, sync, changes), (sync,), folder),
    Scene(
        "changes at work",
        (papers, sync),
        (failing, changed_while_waiting, changed_at_work, written_anew, one_at_a_time, written_anew, sync),
        folder,
    ),
    Scene("a deadly paper", (papers, sync), (died_with_it,), folder, frozenset({"deadly.md"})),
    Scene(
        "quarantine",
        (papers, unreadable_papers, sync),
        (quarantine_worked, sync, other_settings, sync, readable_now, sync, discarded, quarantine_worked),
        folder,
    ),
    Scene(
        "deletions",
        (papers, many_papers, sync),
        (many_gone, sync, hold_dropped, sync, hold_applied, sync, upkeep),
        folder,
    ),
    Scene(
        "undo",
        (papers, sync, changes, sync, remember_sync),
        (undone, sync, undo_undone, sync, upkeep, vacuumed),
        folder,
    ),
    Scene(
        "backup",
        (papers, sync),
        (
            backed_up,
            changes,
            sync,
            sources_changed,
            restored,
            sync,
            restored_by_a_newer_program,
            sync,
            backed_up_at_home,
        ),
        folder,
    ),
    Scene(
        "embeddings",
        (papers, sync),
        (model_chosen, embedded, changes, sync, embedded, embedded_by_another_model),
        folder,
    ),
    Scene(
        "damaged embeddings",
        (papers, sync, model_chosen, embedded, embedding_damaged),
        (embedded,),
        folder,
        unsound=True,
    ),
    Scene("archives", (archive,), (sync, archive_changed, sync, archive_moved, sync), archived_texts),
    Scene(
        "recognition",
        (scans,),
        (sync, recognition_chosen, photo_away, recognized, photo_back, recognized, sync),
        scanned_texts,
    ),
    Scene("a lost runner", (papers, sync), (runner_lost, sync), folder),
    Scene("a newer program", (papers, sync), (led_forward, sync), folder),
    Scene("plan", (papers, sync, changes), (planned, followed), folder),
    Scene("proof", (papers, sync, damaged, changes), (repaired, sync, proved), folder, unsound=True),
    Scene("consent", (papers, sync, changes, sync), (agreed, sync, revoked), nothing),
    Scene("removal", (papers, odd_papers, sync), (removed,), nothing),
    Scene(
        "rules",
        (papers,),
        (paused, resumed, login_failed, resumed, failed_once, stopped, owner_died, host_asked, sync),
        folder,
    ),
    Scene(
        "replay",
        (shelf, sync, read_by_earlier_code),
        (
            replay_started,
            replay_fails,
            replay_resumed,
            sync,
            replayed,
            read_by_other_code,
            replay_cancelled,
            sync,
            history_erased,
        ),
        folder,
    ),
    Scene(
        "sink",
        (papers, sync),
        (
            sink_added,
            delivered,
            changes,
            sync,
            sink_away,
            sink_adopted,
            delivered,
            sink_is_equal,
            sink_emptied,
            sink_is_equal,
            sink_removed,
        ),
        folder,
    ),
    Scene(
        "records",
        (papers, failing),
        (prioritized, sync, incident_closed, measured, moved),
        folder,
    ),
)
