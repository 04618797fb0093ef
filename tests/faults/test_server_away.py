"""A slow, busy, unreachable, silent or stopped server for the worker, its runs and the watcher: started work continues."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from benchmarks.notes import generate
from deployments.server.client import api
from deployments.server.environment import POOL
from tests.acceptance import accidents
from tests.acceptance.accidents import UNHURRIED
from tests.acceptance.person import PROJECT, Person, without_meaning
from tests.faults.proxy import Harm, Proxy
from tests.waiting import until

pytestmark = [pytest.mark.timeout(1_500), pytest.mark.long]

_NOTES = 100
_SHORT = 5
"""Seconds."""
_BETWEEN = PROJECT / "tests" / "faults" / "between"


@dataclass(frozen=True)
class Divided:
    """A user with a worker, runs and a watcher that reach the server only through a proxy."""

    person: Person
    proxy: Proxy

    def in_the_middle(self, name: str, vault: Path, *how: str) -> None:
        """Wait until the first sync of a source is half done."""
        accidents.in_the_middle(self.person, name, vault, _NOTES, "--set", "preset=local", *how)

    def suffer(self, harm: Harm, seconds: float) -> None:
        """Inject this fault for `seconds`."""
        before = self.proxy.harmed
        with self.proxy.doing(harm):
            time.sleep(seconds)
        assert harm.refused or self.proxy.harmed > before

    def worker_seen(self) -> str:
        """Return the worker's status according to the server."""
        with api(self.person.running) as client:
            (worker,) = client.post(f"/work_pools/{POOL}/workers/filter", json={}).raise_for_status().json()
            return str(worker["status"])

    def all_is_well(self, name: str, notes: int = _NOTES) -> None:
        """Check that the sync or a successor completed, every note is in the library once, and no dead run is
        considered active.
        """
        until(lambda: self.person.states_of(name)[:1], lambda latest: latest == ["COMPLETED"])
        source = until(lambda: self.person.source(name), lambda source: source["documents"] >= notes)
        unfinished = {state: number for state, number in source["jobs"].items() if number and state != "succeeded"}
        assert (source["documents"], unfinished) == (notes, {})
        listed = self.person("jobs", "list", "--source", name, "--limit", "10000", "--json").ok().json
        assert len(listed) == len({job["item"] for job in listed}) == notes
        self.person("ledger", "check", "--deep").ok()
        until(self.person.seem_to_run, lambda found: found == [])
        # The source's slot was released.
        assert self.person.sync(name)["jobs"] == 0


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Divided]:
    with closing(Proxy()) as proxy:
        variables = UNHURRIED | {"PYTHONPATH": f"{_BETWEEN}:{UNHURRIED['PYTHONPATH']}", "BETWEEN": proxy.url}
        person = Person(tmp_path_factory.mktemp("divided") / "home", variables=variables)
        try:
            without_meaning(person)("up", "--detach", "--port", str(proxy.target)).ok()
            yield Divided(person, proxy)
        finally:
            person("down")
        assert person.left() == []


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    generate(tmp_path / "vault", _NOTES)
    return tmp_path / "vault"


_HARMS = {
    "slow": Harm(slow=2),
    "busy": Harm(busy=True),
    "cut": Harm(cut=5),
    "deaf": Harm(deaf=True),
    "silent": Harm(silent=True),
    "refused": Harm(refused=True),
}


@pytest.mark.faults
def test_sync_continues_through_every_network_fault(divided: Divided, vault: Path) -> None:
    divided.in_the_middle("all", vault)
    for harm in _HARMS.values():
        divided.suffer(harm, _SHORT)
    divided.all_is_well("all")


@pytest.mark.parametrize(
    "seconds", [pytest.param(10, marks=pytest.mark.faults), pytest.param(90, marks=pytest.mark.soak)]
)
def test_changes_during_a_long_server_outage_are_found_afterwards(divided: Divided, vault: Path, seconds: int) -> None:
    name, word = f"away-{seconds}", f"zqmeanwhile{seconds}"
    divided.in_the_middle(name, vault, "--watch")
    with divided.proxy.doing(Harm(refused=True)):
        (vault / "meanwhile.md").write_text(word)
        time.sleep(seconds)
    divided.all_is_well(name, _NOTES + 1)
    assert len(divided.person.hits(word)) == 1


@pytest.mark.soak
@pytest.mark.parametrize("how", _HARMS)
def test_sync_continues_through_a_permanent_network_fault(divided: Divided, vault: Path, how: str) -> None:
    divided.in_the_middle(how, vault)
    divided.suffer(_HARMS[how], 60)
    divided.all_is_well(how)


@pytest.mark.soak
@pytest.mark.parametrize("how", ["silent", "refused"])
def test_clients_reconnect_after_a_ten_minute_server_outage(divided: Divided, vault: Path, how: str) -> None:
    name = f"{how}-for-long"
    divided.in_the_middle(name, vault)
    divided.suffer(_HARMS[how], 600)
    divided.all_is_well(name)


@pytest.mark.soak
def test_worker_declared_offline_while_stopped_continues(divided: Divided, vault: Path) -> None:
    divided.in_the_middle("still", vault)
    # The supervisor would kill a worker that stalls for half a minute, so both are stopped, as on an overloaded
    # machine.
    still = [psutil.Process(divided.person.running.pid), psutil.Process(divided.person.running.worker_pid)]
    for process in still:
        process.suspend()
    until(divided.worker_seen, lambda status: status == "OFFLINE")
    for process in still:
        process.resume()
    divided.all_is_well("still")
    until(divided.worker_seen, lambda status: status == "ONLINE")
