"""Homes that share a ledger, leave it or adopt it: the audit of each is right, and finds each forgery."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta

import pytest
from sqlalchemy import create_engine, text

from catchment.audit import chain
from catchment.errors import Refused
from catchment.ledger import Ledger
from tests.deployments import test_killed_membership as membership
from tests.deployments.test_killed_membership import Hosts
from tests.ledger.world import Clock, World, note

pytestmark = pytest.mark.postgres
library, postgres, prefect = membership.library, membership.postgres, membership.prefect
_WHO = "operator:anna"


def _sign(hosts: Hosts, name: str) -> None:
    """Check and sign the history, as the daily clean-up of the host does."""
    home = hosts.home(name)
    with closing(Ledger.open(home)) as ledger:
        assert chain.verify(home, ledger, sign=True).problems == (), name


def _problems(hosts: Hosts, name: str) -> tuple[str, ...]:
    home = hosts.home(name)
    with closing(Ledger.inspect(home)) as ledger:
        return chain.verify(home, ledger).problems


def _work(hosts: Hosts, name: str) -> None:
    """Ingest three versions of an item, so that two steps may be erased."""
    clock = Clock()
    with closing(Ledger.open(hosts.home(name), clock=clock)) as ledger:
        world = World("", clock, ledger)
        for version in "abc":
            world.ingest(note("n/0.md", version))
            clock.forward(days=1)
        ledger.syncs.end(world.sync.id, "completed", {})


def _erase(hosts: Hosts, name: str) -> int:
    home = hosts.home(name)
    with closing(Ledger.open(home)) as ledger:
        return chain.erase(home, ledger, ledger.now() + timedelta(days=9999), _WHO, "")


def _forge(hosts: Hosts, change: str = "SET actor = 'forged' WHERE id = 2") -> None:
    """Change rows with the password of the ledger."""
    engine = create_engine(hosts.postgres.replace("/postgres?", f"/library{hosts.number}?"))
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text(f"UPDATE history {change}"))
    engine.dispose()


def _joined(library: Callable[[], Hosts]) -> Hosts:
    """Return two hosts with a signed history. `den` had a separate signed history before."""
    hosts = library()
    home = hosts.home("den")
    with closing(Ledger.open(home)) as ledger:
        for _ in range(9):
            ledger.history.note("backed up", _WHO)
        chain.verify(home, ledger, sign=True)
    _work(hosts, "attic")
    _sign(hosts, "attic")
    assert hosts.join("den")[0] == 0
    hosts.prefect.ship("den")
    return hosts


def _leave(hosts: Hosts, name: str) -> None:
    code, said = hosts.run(name, "leave")
    assert code == 0, said


def test_host_that_had_another_ledger_signs_the_shared_one(library: Callable[[], Hosts]) -> None:
    hosts = _joined(library)
    assert (_problems(hosts, "den"), _problems(hosts, "attic")) == ((), ())
    for name in ("den", "attic", "den"):
        _sign(hosts, name)
    _forge(hosts)
    assert _problems(hosts, "den") and _problems(hosts, "attic")
    assert hosts.join("den")[0] == 0
    assert _problems(hosts, "den"), "another login or name forgives nothing"


def test_host_that_left_signs_its_own_ledger(library: Callable[[], Hosts]) -> None:
    hosts = _joined(library)
    _sign(hosts, "den")
    _leave(hosts, "den")
    assert (_problems(hosts, "den"), _problems(hosts, "attic")) == ((), ())
    _sign(hosts, "den")
    assert hosts.join("den")[0] == 0
    assert (_problems(hosts, "den"), _problems(hosts, "attic")) == ((), ())


def test_rows_of_a_shared_history_are_erased_by_the_last_host_only(library: Callable[[], Hosts]) -> None:
    hosts = _joined(library)
    _sign(hosts, "den")
    with pytest.raises(Refused, match="shared by hosts"):
        _erase(hosts, "attic")
    assert (_problems(hosts, "den"), _problems(hosts, "attic")) == ((), ())
    _leave(hosts, "den")
    _leave(hosts, "attic")
    assert _erase(hosts, "attic") > 0
    assert hosts.join("attic")[0] == hosts.join("den")[0] == 0
    assert (_problems(hosts, "den"), _problems(hosts, "attic")) == ((), ())
    _forge(
        hosts,
        "SET event = '', actor = '', at = 0, reason = NULL WHERE id = (SELECT min(id) FROM history WHERE event <> '')",
    )
    assert _problems(hosts, "den") and _problems(hosts, "attic")


def test_history_that_was_moved_or_restored_meanwhile_is_signed_by_the_next_join(library: Callable[[], Hosts]) -> None:
    hosts = _joined(library)
    _sign(hosts, "den")
    copy = str(hosts.folder / f"copy{hosts.number}.db")
    assert hosts.run("attic", "backup", copy)[0] == 0
    _work(hosts, "den")
    _sign(hosts, "den")
    _leave(hosts, "den")
    _leave(hosts, "attic")
    code, said = hosts.run("attic", "restore", copy, "--reason", "because")
    assert code == 0, said
    assert _problems(hosts, "attic") == ()
    before, hosts.number = hosts.number, next(membership._numbers)
    membership._create(hosts.postgres, f"library{hosts.number}")
    code, said = hosts.run("attic", "ledger", "move", hosts.library)
    assert code == 0 and before != hosts.number, said
    assert hosts.join("attic")[0] == hosts.join("den")[0] == 0
    assert (_problems(hosts, "den"), _problems(hosts, "attic")) == ((), ())
    _sign(hosts, "den")
    _forge(hosts)
    assert _problems(hosts, "den") and _problems(hosts, "attic")


def test_adopted_history_is_signed_by_its_new_home(library: Callable[[], Hosts]) -> None:
    hosts = _joined(library)
    _leave(hosts, "den")
    _leave(hosts, "attic")
    _sign(hosts, "den")
    assert _erase(hosts, "attic") > 0
    hosts.home("den").use_database(hosts.library)
    assert _problems(hosts, "den"), "it is another history"
    code, said = hosts.run("den", "ledger", "adopt")
    assert code == 0, said
    assert (_problems(hosts, "den"), _problems(hosts, "attic")) == ((), ())
    _sign(hosts, "den")
    _work(hosts, "den")
    assert _erase(hosts, "den") > 0
    assert _problems(hosts, "den") == ()
    assert _problems(hosts, "attic"), "its key signed no such erasure"
    assert hosts.run("attic", "ledger", "adopt")[0] == 0
    assert _problems(hosts, "attic") == ()
    _forge(hosts)
    assert _problems(hosts, "den") and _problems(hosts, "attic")
