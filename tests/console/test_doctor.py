"""`catchment doctor`: each check on real files, processes and clocks, and the effect of `--mend`."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catchment.ledger import Ledger
from catchment.model import Item, Priority, Upsert
from catchment.runtime.home import Home
from catchment.runtime.process import alive, identity
from catchment.runtime.watch_status import WatchReport
from catchment.runtime.worker_status import WorkerStatus
from catchment.telemetry.incidents import Condition, Verdict
from deployments.health import doctor, leftovers, machine
from deployments.server.running import Running, record, running
from deployments.sources.sources_file import SourcesFile
from deployments.watch.inotify import inotify_used
from tests.console.standin import Standin, moment, run, serving

if TYPE_CHECKING:
    from tests.console.conftest import Cli

OK, WARN, FAIL = Verdict.OK, Verdict.WARN, Verdict.FAIL
LIMITS = {"max_user_watches": 100, "max_user_instances": 2}
DEAD = "00000000:1:1"


@pytest.fixture
def server(filled: Path) -> Iterator[Standin]:
    with serving(filled) as standin:
        standin.answers["/v2/concurrency_limits/filter"] = []
        yield standin


def of(probe: str, findings: list[Condition]) -> Condition:
    [found] = [finding for finding in findings if finding.probe == probe]
    return found


def told(probe: str, response: Any) -> dict[str, str]:
    [found] = [finding for finding in response.json["findings"] if finding["probe"] == probe]
    return dict(found)


@pytest.mark.parametrize(
    ("needed", "ours", "used", "instances", "remedy"),
    [
        (60, 60, 90, 2, ""),
        (60, 0, 30, 1, ""),
        (71, 60, 90, 2, "sudo sysctl fs.inotify.max_user_watches=256"),
        (10, 0, 30, 2, "sudo sysctl fs.inotify.max_user_instances=8"),
        (10, 10, 30, 2, ""),
    ],
)
def test_inotify_limits_are_held_against_what_the_sources_need(
    needed: int, ours: int, used: int, instances: int, remedy: str
) -> None:
    found = machine.inotify(needed, ours, used, instances, LIMITS)
    assert (found.verdict, found.remedy) == (WARN if remedy else OK, remedy)
    assert machine.inotify(needed, ours, used, instances, {}).verdict is OK


def test_the_folders_that_are_to_be_watched_are_counted(cli: Cli, home: Home, vault: Path) -> None:
    cli("add", "obsidian", str(vault), "--name", "notes", "--watch")
    entries = SourcesFile.load(home.sources_file).entries
    assert machine.folders(home, entries) == 2, "the vault and Bees; .obsidian is not read"


def test_what_this_user_watches_is_counted_from_the_kernel() -> None:
    import ctypes

    before, instances = inotify_used()
    library = ctypes.CDLL(None)
    descriptor = library.inotify_init1(os.O_CLOEXEC)
    try:
        assert library.inotify_add_watch(descriptor, b"/", 2) > 0
        # Other programs may add watches at the same time, but hardly between these two lines.
        lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
        assert sum(line.startswith("inotify wd:") for line in lines) == 1
        assert inotify_used()[1] >= 1
    finally:
        os.close(descriptor)
    assert before >= 0 <= instances


def test_a_home_on_a_network_disk_fails(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [found.verdict for found in machine.disks(home, [])] == [OK]
    monkeypatch.setattr(machine, "network_disk", lambda path: "NFS" if path == home.path else None)
    [found] = machine.disks(home, [])
    assert (found.verdict, "CATCHMENT_HOME" in found.remedy) == (FAIL, True)


def test_a_clock_that_was_set_back_is_told_by_the_ledger(home: Home) -> None:
    assert machine.clocks(home, None).verdict is OK
    later = datetime.now(UTC).timestamp() + 3_600
    with closing(Ledger.open(home.database_url, clock=lambda: later)) as ledger:
        source = ledger.sources.put("notes", "obsidian", Priority.NORMAL)
        ledger.syncs.begin(source.id, run=None, owner=identity(), code_version="1", alive=alive)
    found = machine.clocks(home, None)
    assert (found.verdict, found.remedy) == (WARN, "sudo timedatectl set-ntp true")
    assert "in the future" in found.message


def test_doctor_names_jobs_that_are_released_again_and_again(home: Home) -> None:
    with closing(Ledger.open(home.database_url)) as ledger:
        source = ledger.sources.put("notes", "obsidian", Priority.NORMAL)
        sync = ledger.syncs.begin(source.id, run=None, owner=identity(), code_version="1", alive=alive)
        items = [Item(f"{n}.md", "", "1") for n in range(7)]
        ledger.intake.record(sync.id, [Upsert(item) for item in items], {})
        for _ in range(5):
            ledger.queue.release(ledger.queue.claim(source.id, 10, owner=identity()).token)
        assert [one for one in doctor.examine(home) if one.probe == "jobs notes"] == []
        ledger.queue.release(ledger.queue.claim(source.id, 10, owner=identity()).token)
    [finding] = [one for one in doctor.examine(home) if one.probe == "jobs notes"]
    assert finding.verdict == WARN
    assert finding.message == "7 jobs were claimed at least 6 times without finishing (jobs 1, 2, 3, 4, 5, …)"
    assert finding.remedy == "see catchment jobs show 1; then: catchment sync notes --wait"


def test_a_clock_that_the_server_does_not_share_is_told(server: Standin, filled: Path) -> None:
    server.date = "Fri, 20 Nov 2020 16:19:35 GMT"
    found = machine.clocks(Home(filled), running(Home(filled)))
    assert (found.verdict, "server" in found.message) == (WARN, True)


def test_a_write_ahead_log_that_grows_without_end_is_told(home: Home) -> None:
    assert [found.verdict for found in machine.growth(home)] == [OK]
    with (home.path / "ledger.db-wal").open("wb") as file:
        file.truncate(2_000_000_000)
    warning, sizes = machine.growth(home)
    assert (warning.verdict, sizes.verdict) == (WARN, OK)
    assert "free" in sizes.message


def test_versions_other_than_those_needed_fail_and_those_not_tested_warn(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [found.verdict for found in machine.versions(home)] == [OK]
    real = machine.version
    monkeypatch.setattr(machine, "version", lambda name: "0.151.0" if name == "fastapi" else real(name))
    assert of("versions", machine.versions(home)).verdict is FAIL
    monkeypatch.setattr(machine, "version", lambda name: "0.120.0" if name == "fastapi" else real(name))
    assert of("versions", machine.versions(home)).verdict is WARN
    monkeypatch.setattr(machine, "version", lambda name: "3.10.0" if name == "prefect" else real(name))
    [found] = machine.versions(home)
    assert (found.verdict, "Prefect 3.10.0" in found.message, "make setup" in found.remedy) == (FAIL, True, True)


def test_a_port_that_another_program_took_is_told(home: Home, tmp_path: Path) -> None:
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        number = other.getsockname()[1]
        assert machine.port(home, False, {}).verdict is OK, "it had no port that anybody could have taken"
        (home.path / "port").write_text(f"{number}\n")
        assert machine.port(home, True, {}).verdict is OK
        assert machine.port(home, False, {}).message.endswith("in use by another program")
        second = Home(tmp_path / "second").make()
        (second.path / "port").write_text(f"{number}\n")
        assert machine.port(home, False, {second.path: [1]}).message.endswith("in use by Catchment with another home")
    assert machine.port(home, False, {}).verdict is OK


def test_files_of_dead_processes_are_found_and_removed(cli: Cli, home: Home) -> None:
    record(home, Running(1, 1, datetime.now(UTC), 1, 1, ""))
    WorkerStatus(DEAD, datetime.now(UTC), 1, 1, 0, 0, 0).write(home)
    WatchReport.path(home).write_text('{"watcher": "00000000:1:1", "sources": {}}')
    found = leftovers.files(home)
    assert (found.verdict, found.remedy) == (WARN, "catchment check --mend")
    assert {name for name in ("up.json", "watch.json", "worker.json") if name in found.message} == {
        "up.json",
        "watch.json",
        "worker.json",
    }
    doctor.mend(home)
    assert leftovers.files(home).verdict is OK
    assert {path.suffix for path in home.run.iterdir()} == {".lock"}


def test_files_of_living_processes_stay(home: Home) -> None:
    WorkerStatus(identity(), datetime.now(UTC), 1, 1, 0, 0, 0).write(home)
    doctor.mend(home)
    assert (home.run / "worker.json").exists()


def test_nothing_is_removed_while_catchment_is_being_started(home: Home) -> None:
    record(home, Running(1, 1, datetime.now(UTC), 1, 1, ""))
    with (home.run / "up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        doctor.mend(home)
        assert (home.run / "up.json").exists()
        assert "Catchment is starting" in leftovers.processes(home, [7]).message


def test_a_process_that_lives_on_is_told_with_the_command_that_ends_it(home: Home) -> None:
    left = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()", "deployments.server.app"],
        env={**os.environ, "CATCHMENT_HOME": str(home.path)},
        stdin=subprocess.PIPE,
    )
    try:
        found = of("processes", doctor.examine(home))
        assert (found.verdict, found.remedy) == (WARN, f"kill {left.pid}")
    finally:
        left.communicate(b"")
    assert of("processes", doctor.examine(home)).verdict is OK


def test_a_run_that_no_worker_executes_fails_and_is_not_touched(cli: Cli, server: Standin) -> None:
    lost = run("notes", -300, state="Running", state_type="RUNNING", work_pool_name="catchment")
    server.answers["/flow_runs/filter"] = [lost]

    response = told("runs", cli("doctor", "--json"))
    cli("doctor", "--mend")

    assert (response["verdict"], response["message"]) == ("fail", "no worker executes 1 Running")
    assert [path for _, path, _ in server.asked if path.endswith("/set_state")] == []


@pytest.mark.parametrize(("seconds", "verdict"), [(0, "ok"), (40, "warn")])
def test_a_run_is_not_called_dead_because_the_status_file_is_old(
    cli: Cli, server: Standin, filled: Path, seconds: int, verdict: str
) -> None:
    live = run("notes", -300, state="Running", state_type="RUNNING", work_pool_name="catchment")
    server.answers["/flow_runs/filter"] = [live]
    written = datetime.now(UTC) - timedelta(seconds=seconds)
    runs = (live["id"],) if verdict == "ok" else ()
    WorkerStatus(identity(), written, 1, 1, 0, 0, 0, identity(), runs).write(Home(filled))

    assert told("runs", cli("doctor", "--json"))["verdict"] == verdict


def test_a_run_that_is_about_to_begin_is_no_finding(cli: Cli, server: Standin) -> None:
    young = run("notes", 0, state="Pending", state_type="PENDING")
    young["state"]["timestamp"] = moment(-5)
    server.answers["/flow_runs/filter"] = [young]
    assert told("runs", cli("doctor", "--json"))["verdict"] == "ok"


def test_a_slot_that_no_run_holds_fails_and_is_given_back(cli: Cli, server: Standin) -> None:
    limit = {"id": "limit-7", "name": "deployment:deployment-of-notes", "limit": 1, "active_slots": 1}
    server.answers["/v2/concurrency_limits/filter"] = lambda _: [limit]
    server.answers["/v2/concurrency_limits/limit-7"] = lambda body: limit.update(body) or {}
    server.answers["/task_runs/filter"] = []
    response = cli("doctor", "--json")
    assert (response.code, told("slots", response)["verdict"]) == (1, "fail")
    mended = cli("doctor", "--mend", "--json")
    assert (limit["active_slots"], told("slots", mended)["verdict"]) == (0, "ok")


def test_a_slot_that_no_run_holds_is_found_however_many_there_are(server: Standin, filled: Path) -> None:
    limits = [
        {"id": f"limit-{n}", "name": f"deployment:{n}", "limit": 1, "active_slots": int(n == 450)} for n in range(451)
    ]
    server.answers["/v2/concurrency_limits/filter"] = lambda body: limits[(at := body.get("offset", 0)) : at + 200]
    state = running(Home(filled))
    assert state is not None
    assert of("slots", leftovers.in_prefect(Home(filled), state)).verdict is FAIL


def test_a_slot_that_a_run_holds_is_no_leak(cli: Cli, server: Standin) -> None:
    limit = {"id": "limit-7", "name": "deployment:deployment-of-notes", "limit": 1, "active_slots": 1}
    server.answers["/v2/concurrency_limits/filter"] = [limit]
    held = run("notes", 0, state="Running", state_type="RUNNING")
    held["state"]["timestamp"] = moment(-5)
    server.answers["/flow_runs/filter"] = [held]
    assert told("slots", cli("doctor", "--json"))["verdict"] == "ok"


def test_doctor_makes_no_home_where_there_is_none(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = tmp_path / "mistyped"
    monkeypatch.setenv("CATCHMENT_HOME", str(nowhere))
    assert [cli("doctor").code, cli("doctor", "--mend").code] == [0, 0]
    assert not nowhere.exists()


def test_check_works_before_anything_was_added_and_loads_no_prefect(process: Cli) -> None:
    script = (
        "import sys\n"
        "from console.main import main\n"
        "code = main(['check'])\n"
        "assert 'prefect' not in sys.modules\n"
        "sys.exit(code)\n"
    )
    response = process(script=script)
    assert (response.code, response.err) == (1, ""), response
