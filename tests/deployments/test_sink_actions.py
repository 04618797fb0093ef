"""The actions of operators on sinks: separate places, and actions that succeed although the server is silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment.errors import BadInput, NoConsent, TryAgain
from catchment.ledger import Ledger, SinkState
from catchment.runtime.home import Home
from deployments.actions import sinks
from deployments.actions.desk import Desk
from deployments.runs import deliveries
from web.__main__ import desk_of


@pytest.fixture
def desk(home: Home) -> Desk:
    Ledger.open(home).close()
    return desk_of(home)


@pytest.fixture
def place(desk: Desk, tmp_path: Path) -> Path:
    """The place of the sink `copy`."""
    folder = tmp_path / "copy"
    sinks.add(desk, "folder", str(folder), "copy", "operator")
    (tmp_path / "link").symlink_to(folder)
    return folder


@pytest.mark.parametrize("path", ["copy", "copy/", "copy/inner", ".", "x/../copy", "link", "link/inner"])
@pytest.mark.parametrize("kind", ["folder", "jsonl"])
def test_place_of_another_sink_is_refused(desk: Desk, place: Path, kind: str, path: str) -> None:
    with pytest.raises(BadInput, match="the place of the sink copy"):
        sinks.add(desk, kind, f"{place.parent}/{path}", "second", "operator")
    assert sinks.add(desk, kind, f"{place}-too", "beside", "operator").name == "beside"


@pytest.mark.parametrize("path", ["", "copies", "audit/x"])
def test_place_in_the_home_is_refused(desk: Desk, path: str) -> None:
    with pytest.raises(BadInput, match="Catchment's own state"):
        sinks.add(desk, "folder", f"{desk.home.path}/{path}", "inside", "operator")


@pytest.mark.parametrize("sign", ["\0", "\n", "\x1b"])
def test_place_with_a_control_character_is_refused(desk: Desk, tmp_path: Path, sign: str) -> None:
    for kind in ("folder", "jsonl"):
        with pytest.raises(BadInput, match="control character"):
            sinks.add(desk, kind, f"{tmp_path}/z{sign}", "odd", "operator", consented=True)


@pytest.mark.parametrize("kind", ["folder", "parquet"])
def test_folder_on_a_network_disk_needs_consent(
    desk: Desk, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nfs = {tmp_path: 0x6969}
    monkeypatch.setattr("catchment.runtime.system.disks.file_system", nfs.get)
    monkeypatch.setenv("HOME", str(tmp_path))
    for place in (f"{tmp_path}/new/copy", "~/new/copy"):
        with pytest.raises(NoConsent, match="a folder on NFS: not this machine"):
            sinks.add(desk, kind, place, "copy", "operator")
    assert not (tmp_path / "new").exists()
    assert sinks.add(desk, kind, f"{tmp_path}/new/copy", "copy", "operator", consented=True).name == "copy"


def test_actions_are_done_although_the_server_is_silent(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker starts the delivery later. An error would mean that the action failed."""

    def silent(_home: Home, _name: str) -> None:
        raise TryAgain("the Prefect server does not respond; try again")

    monkeypatch.setattr(deliveries, "start_delivery", silent)
    assert sinks.add(desk, "folder", str(tmp_path / "copy"), "copy", "operator").name == "copy"
    assert sinks.adopt(desk, "copy", "operator").name == "copy"
    for act, state in ((sinks.rebuild, SinkState.EMPTYING), (sinks.resume, SinkState.ACTIVE)):
        act(desk, "copy", "operator")
        with desk.reading() as ledger:
            assert ledger.outbox.get("copy").state is state
