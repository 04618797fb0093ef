"""The operator's actions on a real home: each adds its line to the history, and a refused one has no effect."""

from __future__ import annotations

import inspect
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from catchment.content.cache import Cache
from catchment.content.raw_store import RawStore
from catchment.errors import BadInput, FailureClass, IllegalTransition, NoConsent, NotFound, Reason, Refused, TryAgain
from catchment.ledger import (
    BackfillSelection,
    BackfillState,
    FailureInfo,
    Incident,
    Moment,
    SinkRow,
    Survey,
    sqlite_file,
)
from catchment.model import Item, JobState, RawContent, ReplayStage, Tombstone, Upsert
from catchment.runtime import own_secrets
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership
from catchment.runtime.process import alive, identity
from console import session
from deployments.actions import (
    backfills,
    backups,
    consents,
    hosts,
    inbox,
    incidents,
    jobs,
    library,
    limits,
    quarantine,
    sinks,
    sources,
    syncs,
)
from deployments.actions.desk import Desk
from deployments.actions.quarantine import Selection
from deployments.server.running import require_running
from deployments.sources.entries import Timing
from tests.console.standin import Standin, answering, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.console.conftest import Cli

WHO, WHY = "operator:anna", "because"


@pytest.fixture
def server(filled: Path) -> Iterator[Standin]:
    with answering(filled) as standin:
        yield standin


@pytest.fixture
def desk(filled: Path) -> Desk:
    return session.desk()


def _job(desk: Desk, state: JobState) -> int:
    with desk.reading() as ledger:
        return ledger.queue.jobs(state=state)[0].job


def _sync_with_held_deletions(desk: Desk, *, run: str | None = None, end: bool = True) -> int:
    with desk.writing() as ledger:
        source = ledger.sources.get("notes").id
        sync = ledger.syncs.begin(source, run=run, owner=identity(), code_version="0", alive=alive)
        ledger.intake.record(sync.id, [Tombstone("Hive.md"), Tombstone("Bees/Swarm.md")], {})
        ledger.intake.settle(sync.id, changed_roots=[""])
        if end:
            ledger.syncs.end(sync.id, "completed", {"held": 2})
        return source


def _decide(decision: Callable[..., int]) -> Callable[[Desk], object]:
    def act(desk: Desk) -> object:
        _sync_with_held_deletions(desk)
        return decision(desk, "notes", WHO, WHY)

    return act


def _add(desk: Desk) -> object:
    root = desk.entry("notes").settings.root  # type: ignore[attr-defined]
    return sources.add(desk, sources.NewSource("local_files", str(root), "more"), WHO, WHY)


def _change(desk: Desk, **given: Any) -> object:
    return sources.change(desk, desk.revised(desk.entry("notes"), given, Timing()), WHO, WHY)


def _cancel(desk: Desk) -> object:
    _sync_with_held_deletions(desk, run="run-2", end=False)
    return syncs.cancel(desk, "notes", WHO, WHY)


def _undo(desk: Desk) -> object:
    with desk.reading() as ledger:
        number = ledger.syncs.recent()[0].id
    return syncs.undo(desk, number, WHO, WHY)


def _clear(desk: Desk) -> object:
    limits.change(desk, "notes", WHO, per_hour=5)
    return limits.clear(desk, "notes", WHO, WHY)


def _reset(desk: Desk) -> object:
    with closing(sqlite3.connect(desk.home.path / "ledger.db")) as ledger, ledger:
        ledger.execute("INSERT INTO breakers (key, failures, opened, locked) VALUES ('host:example.org', 5, 1, 0)")
    return limits.reset_breaker(desk, "example.org", WHO, WHY)


def an_incident(desk: Desk) -> int:
    """Open an incident of the source, as the web process does, and return its number."""
    now = datetime.now(UTC)
    text, remedy = "mail.example.org: no answer", "check its address"
    moments = (Moment(now, "opened", text),)
    incident = Incident(0, "source.unreachable", "source:notes", now, None, text, remedy, moments)
    with desk.writing() as ledger:
        (stored,) = ledger.incidents.save([incident])
    return stored.id


def _acknowledge(desk: Desk) -> object:
    return incidents.acknowledge(desk, an_incident(desk), WHO, WHY)


def _resume(desk: Desk) -> object:
    sources.pause(desk, "notes", WHO)
    return sources.resume(desk, "notes", WHO, WHY)


def _test(desk: Desk) -> object:
    with desk.writing() as ledger:
        source = ledger.sources.get("notes").id
        sync = ledger.syncs.begin(source, run=None, owner=identity(), code_version="0", alive=alive)
        ledger.syncs.end(sync.id, "failed", {}, "the folder was away", cause="source.unreachable")
        ledger.sources.hold("notes", WHO, "the folder was away")
    return sources.test(desk, "notes", WHO, WHY)


def joined(desk: Desk, server: str = "http://127.0.0.1:4200") -> None:
    """Make the home one of the hosts of a server."""
    login = desk.home.path / "server-login"
    own_secrets.obtain(login, lambda: "me:secret", bool, "a login")
    Membership("attic", server, f"file:{login}").record(desk.home)


def lost_host(desk: Desk) -> None:
    """Make the home one of two hosts of the server that runs, of which the other one does not answer."""
    joined(desk, f"http://127.0.0.1:{require_running(desk.home).port}")
    with closing(sqlite3.connect(desk.home.path / "ledger.db")) as ledger, ledger:
        columns = "id, name, boot, beat_until, version, takes_any, joined_at"
        ledger.execute(f"INSERT INTO hosts ({columns}) VALUES (2, 'barn', '', 0, '1', 0, 1)")


def _take_out(desk: Desk) -> object:
    lost_host(desk)
    return hosts.take_out(desk, "barn", WHO, WHY)


def _move(desk: Desk) -> object:
    joined(desk)
    return sources.move(desk, "notes", "attic", WHO, WHY)


def _enqueue(desk: Desk) -> object:
    return inbox.enqueue(desk, ["https://example.org/a"], WHO, WHY, consented=True)


def _keep(desk: Desk) -> object:
    return inbox.keep_file(desk, "a.txt", b"A text", WHO, WHY)


def _allow(desk: Desk) -> object:
    _enqueue(desk)
    return sources.allow_hosts(desk, inbox.INBOX, ["pages.example.org"], WHO, WHY)


def _restore(desk: Desk) -> object:
    return backups.restore(desk, backups.make(desk, WHO).file, WHO, WHY)


def _erase(desk: Desk) -> object:
    """Erase the steps of the first version of an item, a hundred days later."""
    with desk.writing() as ledger:
        source = ledger.sources.get("notes").id
        sync = ledger.syncs.begin(source, run=None, owner=identity(), code_version="0", alive=alive)
        ledger.intake.record(sync.id, [Upsert(Item("Hive.md", "", "v2", identity="Hive.md"))], {})
        ledger.syncs.end(sync.id, "completed", {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "_NOT_ERASED", timedelta(days=-100))
        return library.erase_history(desk, datetime.now(UTC) + timedelta(days=1), WHO, WHY)


def _of_sink(act: Callable[..., object]) -> Callable[[Desk], object]:
    def done(desk: Desk) -> object:
        a_sink(desk)
        return act(desk, "copy", WHO, WHY)

    return done


def a_sink(desk: Desk) -> SinkRow:
    return sinks.add(desk, "jsonl", str(desk.home.path.parent / "copy"), "copy", WHO, WHY)


@dataclass
class Action:
    """An action, and the event of its line. Some are refused while Catchment runs."""

    act: Callable[[Desk], object]
    event: str
    needs_server: bool = True


ACTIONS = {
    "sources.add": Action(_add, "added"),
    "sources.change": Action(lambda desk: _change(desk, exclude="*.tmp"), "changed"),
    "sources.move": Action(_move, "moved"),
    "sources.pause": Action(lambda desk: sources.pause(desk, "notes", WHO, WHY), "paused"),
    "sources.resume": Action(_resume, "resumed"),
    "sources.test": Action(_test, "resumed"),
    "sources.remove": Action(lambda desk: sources.remove(desk, "notes", WHO, WHY), "removed"),
    "syncs.start": Action(lambda desk: syncs.start(desk, "notes", WHO, WHY), "sync requested"),
    "syncs.start_all": Action(lambda desk: syncs.start_all(desk, WHO, WHY), "sync requested"),
    "syncs.cancel": Action(_cancel, "cancel requested"),
    "consents.give": Action(lambda desk: consents.give(desk, "notes", WHO, WHY), "consent given"),
    "consents.revoke": Action(lambda desk: consents.revoke(desk, "notes", WHO, WHY), "consent withdrawn"),
    "limits.change": Action(lambda desk: limits.change(desk, "notes", WHO, WHY, per_hour=5), "throttle set"),
    "limits.clear": Action(_clear, "throttle cleared"),
    "limits.reset_breaker": Action(_reset, "breaker reset"),
    "incidents.acknowledge": Action(_acknowledge, "incident acknowledged"),
    "quarantine.retry": Action(lambda desk: quarantine.retry(desk, Selection(), WHO, WHY), "pending"),
    "quarantine.discard": Action(lambda desk: quarantine.discard(desk, Selection(), WHO, WHY), "cancelled"),
    "quarantine.note": Action(lambda desk: quarantine.note(desk, Selection(), WHY, WHO), "noted"),
    "quarantine.purge": Action(lambda desk: quarantine.purge(desk, timedelta(0), WHO, WHY), "cancelled"),
    "jobs.cancel": Action(lambda desk: jobs.cancel(desk, _job(desk, JobState.PENDING), WHO, WHY), "cancelled"),
    "jobs.prioritize": Action(
        lambda desk: jobs.prioritize(desk, _job(desk, JobState.RETRYING), WHO, WHY), "prioritized"
    ),
    "syncs.undo": Action(_undo, "undone"),
    "backups.make": Action(lambda desk: backups.make(desk, WHO, WHY), "backed up"),
    "backups.restore": Action(_restore, "restored", needs_server=False),
    "hosts.take_out": Action(_take_out, "host left"),
    "library.choose_model": Action(lambda desk: library.choose_model(desk, "off", WHO, WHY), "model chosen"),
    "library.choose_recognition": Action(
        lambda desk: library.choose_recognition(desk, "off", WHO, WHY), "recognition chosen"
    ),
    "library.erase_history": Action(_erase, "history erased"),
    "library.replace_key": Action(lambda desk: library.replace_key(desk, WHO, WHY), "audit key replaced"),
    "library.adopt": Action(lambda desk: library.adopt(desk, WHO, WHY), "ledger adopted"),
    "library.move": Action(
        lambda desk: library.move(desk, f"sqlite:///{desk.home.path}/moved.db", WHO, WHY),
        "ledger moved",
        needs_server=False,
    ),
    "sinks.add": Action(a_sink, "sink added"),
    "sinks.pause": Action(_of_sink(sinks.pause), "sink paused"),
    "sinks.resume": Action(_of_sink(sinks.resume), "sink active"),
    "sinks.rebuild": Action(_of_sink(sinks.rebuild), "sink emptying"),
    "sinks.adopt": Action(_of_sink(sinks.adopt), "sink adopted"),
    "sinks.remove": Action(_of_sink(sinks.remove), "sink removed"),
    "sources.apply_deletions": Action(_decide(sources.apply_deletions), "hold applied"),
    "sources.allow_hosts": Action(_allow, "consent given"),
    "inbox.enqueue": Action(_enqueue, "changed"),
    "inbox.keep_file": Action(_keep, "changed"),
    "sources.drop_deletions": Action(_decide(sources.drop_deletions), "hold dropped"),
}


def _history(home: Path) -> list[tuple[str, str, str | None]]:
    with closing(sqlite3.connect(sqlite_file(Home(home).database_url) or "")) as ledger:
        return ledger.execute("SELECT actor, event, reason FROM history ORDER BY id").fetchall()


def _revoke(desk: Desk) -> str:
    consents.revoke(desk, "notes", WHO)
    joined(desk)
    return "notes"


def _set_another_host(desk: Desk) -> str:
    _enqueue(desk)
    hosts = ["example.org", "other.example"]
    sources.change(desk, desk.revised(desk.entry(inbox.INBOX), {"hosts": hosts}, Timing()), WHO)
    return inbox.INBOX


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("prepare", "act"),
    [(_revoke, lambda desk, name, actor: sources.move(desk, name, "attic", actor)), (_set_another_host, sources.test)],
)
def test_action_probes_nothing_without_consent(
    desk: Desk, prepare: Callable[[Desk], str], act: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = prepare(desk)
    monkeypatch.setattr(sources, "probe", lambda _connector: pytest.fail("the source was read"))
    with pytest.raises(NoConsent):
        act(desk, name, WHO)


def test_address_of_a_moved_ledger_is_not_in_the_history(filled: Path, desk: Desk) -> None:
    library.move(desk, f"sqlite:///{filled}/moved.db", WHO)
    actor, event, reason = _history(filled)[-1]
    assert (actor, event, reason) == (WHO, "ledger moved", None)


@pytest.mark.parametrize("name", ACTIONS)
def test_action_adds_its_line_to_the_history(
    filled: Path, desk: Desk, name: str, request: pytest.FixtureRequest
) -> None:
    action = ACTIONS[name]
    if action.needs_server:
        request.getfixturevalue("server")
    before = len(_history(filled))
    action.act(desk)
    lines = [(event, reason or "") for actor, event, reason in _history(filled)[before:] if actor == WHO]
    assert any(event == action.event and (WHY in reason or event == "noted") for event, reason in lines), lines


def test_every_action_is_listed_in_the_room() -> None:
    """Each function with an actor is an action, and stands in the package's table and in the test above."""
    import deployments.actions

    modules: list[ModuleType] = [
        *(backups, consents, inbox, incidents, jobs, library, limits, quarantine, sinks, sources, syncs)
    ]
    found = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
        and "actor" in inspect.signature(function).parameters
        and name[0] != "_"
    }
    # The others of hosts need a server that hosts share: tests/deployments/test_audit_of_hosts.py.
    assert ACTIONS.keys() == found | {"hosts.take_out"}
    table = deployments.actions.__doc__ or ""
    for name in ACTIONS:
        room, _, function = name.partition(".")
        verbs = [line for line in table.splitlines() if line.endswith(f"actions.{room}")]
        assert any(re.search(rf"\b{function.partition('_')[0]}", line) for line in verbs), name


def _state(home: Path) -> tuple[str, list[Any], str]:
    with closing(sqlite3.connect(home / "ledger.db")) as ledger:
        rows = ledger.execute("SELECT name, state, priority FROM sources ORDER BY id").fetchall()
    return (home / "sources.yaml").read_text(), rows, str(_history(home))


@pytest.mark.parametrize("name", ["sources.pause", "sources.change", "sources.add", "syncs.start"])
def test_action_leaves_no_trace_if_the_server_fails(filled: Path, server: Standin, desk: Desk, name: str) -> None:
    before = _state(filled)
    server.code = 500
    with pytest.raises(TryAgain):
        ACTIONS[name].act(desk)
    assert _state(filled) == before


def test_resumed_source_is_synced_at_once(server: Standin, desk: Desk) -> None:
    sources.pause(desk, "notes", WHO)
    assert sources.resume(desk, "notes", WHO) == "run-1"
    asked = [path for _, path, _ in server.asked]
    assert asked.index("/deployments/d1/resume_deployment") < asked.index("/deployments/d1/create_flow_run")


def test_cleared_limit_starts_the_planned_retry_now(filled: Path, server: Standin, desk: Desk) -> None:
    backfill = {"name": "notes", "backfill": 7}
    server.answers["/flow_runs/filter"] = [
        run("notes", 3_600, auto=False, deployment_id="d1", id="run-3"),
        run("notes", 3_600, auto=False, deployment_id="d1", id="run-4", parameters=backfill),
    ]
    limits.change(desk, "notes", WHO, paused=True)
    assert server.asked == []
    limits.clear(desk, "notes", WHO)
    (_, _, query), (_, _, of_backfills), *rest = server.asked
    assert query["deployments"] == of_backfills["deployments"] == {"name": {"any_": ["notes"]}}
    assert [one["flow_runs"]["name"]["like_"] for one in (query, of_backfills)] == [": retries", ": backfill "]
    begun, removed = rest[:2], rest[2:]
    assert {path for _, path, _ in begun} == {"/deployments/d1/create_flow_run"}
    assert sorted(str(body["parameters"]) for _, _, body in begun) == ["{'backfill': 7}", "{}"]
    assert [path for _, path, _ in removed] == ["/flow_runs/run-3", "/flow_runs/run-4"]
    server.code = 500
    limits.change(desk, "all", WHO, per_hour=5)
    with desk.reading() as ledger:
        assert ledger.throttles.get("all").per_hour == 5


def test_resume_and_pause_need_no_running_system(desk: Desk) -> None:
    sources.pause(desk, "notes", WHO)
    assert sources.resume(desk, "notes", WHO) is None
    with desk.reading() as ledger:
        assert ledger.sources.get("notes").state == "active"


def test_desk_does_not_import_prefect() -> None:
    """The web process hands it to the actions, and must stay small."""
    modules = "deployments.actions.desk, deployments.sources.deploy, deployments.runs.runs, deployments.actions.sources"
    script = f"import sys, {modules}; sys.exit('prefect' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_running_sync_is_cancelled_by_its_source(filled: Path, server: Standin, desk: Desk) -> None:
    with pytest.raises(NotFound, match="notes: no sync is running"):
        syncs.cancel(desk, "notes", WHO)
    assert _cancel(desk) == "run-2"
    assert ("POST", "/flow_runs/run-2/set_state", {"state": {"type": "CANCELLING"}}) in server.asked


def test_running_sync_is_cancelled_by_a_command(server: Standin, desk: Desk, cli: Cli) -> None:
    assert cli("sync", "notes", "--cancel").code == 4
    _sync_with_held_deletions(desk, run="run-2", end=False)
    assert cli("sync", "notes", "--cancel", "--json").json == {"source": "notes", "run": "run-2"}
    assert ("POST", "/flow_runs/run-2/set_state", {"state": {"type": "CANCELLING"}}) in server.asked
    for more in (("--wait",), ("--deep",), ("--plan", "x")):
        assert cli("sync", "notes", "--cancel", *more).code == 2
    assert cli("sync", "--all", "--cancel").code == 2


def test_setting_is_changed_and_the_rest_of_the_file_stays(filled: Path, cli: Cli) -> None:
    file = filled / "sources.yaml"
    text = file.read_text().replace("    name: notes\n", "    name: notes  # mine\n") + "# the end\n"
    file.write_text(text)
    typed = ("sources", "set", "notes", "exclude=*.tmp", "limits.max_mb=20", "--every", "1h", "--priority", "high")
    dry = cli(*typed, "--dry-run")
    assert dry.code == 0 and re.search(r"limits.max_mb +- +20.0 +no", dry.out) and "every 1 h" in dry.out
    assert file.read_text() == text
    assert cli(*typed, "--reason", "too large").code == 0
    shown = cli("sources", "show", "notes", "--json").json
    assert (shown["schedule"], shown["settings"]["priority"]) == ("every 1 h", "high")
    assert (shown["settings"]["exclude"], shown["settings"]["limits"]) == (["*.tmp"], {"max_mb": 20.0})
    assert {"# mine", "# the end"} <= set(re.findall(r"# .*", file.read_text()))
    reason = "priority, exclude, limits.max_mb, schedule; too large"
    assert (reason in _history(filled)[-1]) and _history(filled)[-1][1] == "changed"
    assert cli("sources", "set", "notes", "limits.memory_mb=512", "--watch", "--debounce", "5").code == 0
    assert cli("sources", "set", "notes", "exclude=", "--no-watch", "limits.max_mb=null").code == 0
    shown = cli("sources", "show", "notes", "--json").json
    assert (shown["schedule"], shown["settings"]["limits"]) == ("every 1 h", {"memory_mb": 512})
    assert shown["settings"]["exclude"] == []
    assert "nothing to change" in cli("sources", "set", "notes", "exclude=").out
    assert re.search("assistants +true +false +no", cli("sources", "set", "notes", "assistants=false", "--dry-run").out)


def test_raw_content_is_deleted_with_its_setting_and_its_source(filled: Path, cli: Cli, desk: Desk) -> None:
    with desk.reading() as ledger:
        items = ledger.purging.ids(ledger.sources.get("notes").id, lambda _locator: True)
    for ending in (("set", "notes", "keep_raw=false"), ("remove", "notes", "--yes")):
        assert cli("sources", "set", "notes", "keep_raw=true").code == 0
        with closing(RawStore(desk.home.raw, desk.home.raw_bytes)) as raw:
            raw.put((number, Item("Hive.md", "", "1"), RawContent(b"bees", "Hive.md")) for number in items)
            assert raw.items() == {*items}
            assert cli("sources", *ending).code == 0
            assert raw.items() == set()


def test_removal_clears_the_cache(desk: Desk) -> None:
    with closing(Cache(desk.home.cache)) as cache:
        cache.put({"1:text": b"bees"})
        sources.remove(desk, "notes", WHO)
        assert cache.keys() == []


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_another_place_is_another_source(filled: Path, cli: Cli, tmp_path: Path, options: tuple[str, ...]) -> None:
    before = _state(filled)
    refused = cli("sources", "set", "notes", f"root={tmp_path}", *options)
    assert (refused.code, refused.err.count("\n")) == (5, 1)
    assert "cannot change root" in refused.err and "add another source" in refused.err
    assert ("yes" in refused.out) == bool(options)
    assert _state(filled) == before


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("notes",), 2, "nothing to change"),
        (("notes", "exclud=x"), 2, "did you mean exclude"),
        (("notes", "limits.max_mb=lots"), 2, "limits.max_mb"),
        (("notes", "--every", "1h", "--cron", "0 7 * * *"), 2, "one of"),
        (("notes", "--debounce", "5"), 2, "--watch"),
        (("note", "exclude=x"), 4, "did you mean notes"),
    ],
)
def test_wrong_change_is_refused(filled: Path, cli: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    before = _state(filled)
    refused = cli("sources", "set", *words)
    assert (refused.code, refused.err.count("\n")) == (code, 1), refused
    assert said in refused.err
    assert _state(filled) == before


def test_source_being_removed_is_not_changed(desk: Desk) -> None:
    with desk.writing() as ledger:
        ledger.sources.begin_removal("notes", WHO)
    with pytest.raises(Refused, match="being removed"):
        _change(desk, exclude="*.tmp")


def _fail_more(desk: Desk, number: int) -> None:
    error = FailureInfo(Reason.PARSE_ERROR, FailureClass.PERMANENT, "ParseError", "cut")
    with desk.writing() as ledger:
        source = ledger.sources.get("notes").id
        sync = ledger.syncs.begin(source, run=None, owner=identity(), code_version="0", alive=alive)
        ledger.intake.record(sync.id, [Upsert(Item(f"{n}.pdf", "", "v1")) for n in range(number)], {})
        batch = ledger.queue.claim(source, number, owner=identity(), fresh=True)
        for job in batch.jobs:
            ledger.queue.fail(batch.token, job.id, error, retry_at=None)
        ledger.syncs.end(sync.id, "completed", {})


@pytest.mark.parametrize("name", ["retry", "discard", "note"])
def test_all_that_match_is_refused_if_the_number_changed(filled: Path, desk: Desk, name: str) -> None:
    act: Callable[[Selection], object] = {
        "retry": lambda which: quarantine.retry(desk, which, WHO, WHY),
        "discard": lambda which: quarantine.discard(desk, which, WHO, WHY),
        "note": lambda which: quarantine.note(desk, which, WHY, WHO),
    }[name]
    _fail_more(desk, 19)
    with desk.reading() as ledger:
        number = len(ledger.quarantine.matching("notes"))
    assert number == 20
    before = _history(filled)
    for seen in (18, 23):
        with pytest.raises(Refused, match=f"20 items match now instead of {seen}"):
            act(Selection(source="notes", expected=seen))
    assert _history(filled) == before
    act(Selection(source="notes", cause=Reason.PARSE_ERROR, expected=21))
    assert sum(actor == WHO for actor, _, _ in _history(filled)) == 20


def test_selection_names_jobs_or_a_filter(filled: Path, desk: Desk) -> None:
    job = _job(desk, JobState.QUARANTINED)
    before = _history(filled)
    with pytest.raises(BadInput, match="not both"):
        quarantine.retry(desk, Selection([job], source="notes"), WHO)
    with pytest.raises(NotFound, match="no such source"):
        quarantine.discard(desk, Selection(source="other"), WHO)
    with pytest.raises(NotFound, match="job 999"):
        quarantine.note(desk, Selection([job, 999]), WHY, WHO)
    with pytest.raises(BadInput, match="empty"):
        quarantine.note(desk, Selection([job]), " ", WHO)
    assert _history(filled) == before


def test_deletions_are_confirmed_only_as_they_were_seen(filled: Path, desk: Desk) -> None:
    _sync_with_held_deletions(desk)
    before = _history(filled)
    with pytest.raises(Refused, match="2 deletions are held now instead of 3"):
        sources.apply_deletions(desk, "notes", WHO, expected=3)
    assert _history(filled) == before
    assert sources.apply_deletions(desk, "notes", WHO, expected=2) == 2
    with pytest.raises(NotFound, match="no held deletions"):
        sources.apply_deletions(desk, "notes", WHO, expected=2)


@pytest.mark.parametrize("action", [jobs.cancel, jobs.prioritize])
def test_finished_job_is_neither_cancelled_nor_prioritized(
    filled: Path, desk: Desk, action: Callable[..., None]
) -> None:
    before = _history(filled)
    with pytest.raises(IllegalTransition):
        action(desk, _job(desk, JobState.SUCCEEDED), WHO)
    with pytest.raises(NotFound):
        action(desk, 999, WHO)
    assert _history(filled) == before


def test_period_of_a_folder_cannot_be_fetched(desk: Desk) -> None:
    since = datetime(2024, 1, 1, tzinfo=UTC)
    assert backfills.window(desk, "notes", since, None).stage is ReplayStage.NORMALIZE
    with pytest.raises(BadInput, match="--stage fetch: notes cannot list a period"):
        backfills.window(desk, "notes", since, None, ReplayStage.FETCH)


def test_a_backfill_of_a_paused_source_is_not_stored(desk: Desk, server: Standin) -> None:
    again = BackfillSelection(ReplayStage.EMBED)
    paused = backfills.plan(desk, "notes", again, WHO)
    assert paused is not None
    backfills.start(desk, paused.id, WHO)
    backfills.pause(desk, paused.id, WHO)
    sources.pause(desk, "notes", WHO)
    with pytest.raises(Refused, match="sources resume notes"):
        backfills.plan(desk, "notes", again, WHO)
    with pytest.raises(Refused, match="sources resume notes"):
        backfills.resume(desk, paused.id, WHO)
    with desk.reading() as ledger:
        assert [(one.id, one.state) for one in ledger.backfills.page().rows] == [(paused.id, BackfillState.PAUSED)]


def test_documents_whose_content_is_not_kept_are_not_called_up_to_date(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfills, "survey", lambda *_: Survey(0, 3, ""))
    with pytest.raises(NotFound, match=r"3 documents is not kept; .*--items FILE"):
        backfills.plan(desk, "notes", BackfillSelection(ReplayStage.NORMALIZE), WHO)
