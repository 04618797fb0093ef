"""Commands that need a running server: a source from `add` to `remove`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from catchment.runtime.server_report import ServerReport
from deployments.runs import runs
from deployments.sources.deploy import is_deployed
from deployments.sources.sources_file import SourcesFile
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from catchment.runtime.home import Home
    from deployments.server.running import Running
    from tests.console.conftest import Cli

pytestmark = pytest.mark.server


@pytest.fixture
def online(cli: Cli, server: Running, server_home: Home, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run the command line in the home of the running server."""
    monkeypatch.setenv("CATCHMENT_HOME", str(server_home.path))
    return cli


def test_a_source_is_added_synced_searched_paused_and_removed(online: Cli, server: Running, tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "bees.md").write_text("# Bees\n\nThe queen excluder stays in until August.\n")
    (folder / "cut.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\n")

    added = online("add", "local_files", str(folder), "--name", "console-papers", "--every", "1d")
    assert (added.code, "`catchment sync console-papers --wait`" in added.out) == (0, True), added

    synced = online("sync", "console-papers", "--wait")
    assert synced.code == 0, synced
    assert "console-papers: completed" in synced.err
    assert synced.out.startswith("console-papers: 1 added or updated, 1 quarantined\n")
    assert [hit["item"] for hit in online("search", "excluder", "source:console-papers", "--json").json] == ["bees.md"]
    [entry] = online("quarantine", "list", "--source", "console-papers", "--json").json
    assert (entry["item"], entry["reason"]) == ("cut.pdf", "parse_error")

    status = online("status", "--json").json
    assert status["server"] == {"running": True, "answers": True, "url": server.url}

    assert online("sources", "pause", "console-papers").code == 0
    assert online("sync", "console-papers", "--wait").code == 5
    assert online("sources", "resume", "console-papers").code == 0
    everything = online("sync", "--all", "--wait", "--json")
    [result] = [row for row in everything.json if row["source"] == "console-papers"]
    assert (result["state"], result["summary"]["unchanged"]) == ("Completed", 0)

    folder.rename(tmp_path / "unmounted")
    failed = online("sync", "console-papers", "--wait", "--json")
    assert (failed.code, failed.json["state"]) == (1, "Failed")
    assert "mount its disk" in failed.err
    assert [hit["item"] for hit in online("search", "excluder", "source:console-papers", "--json").json] == [
        "bees.md"
    ], "nothing was deleted"

    assert online("sources", "remove", "console-papers", "--yes").code == 0
    assert online("sync", "console-papers").code == 4
    assert online("search", "source:console-papers").code == 2, "it is not known any more"
    assert "bees.md" not in [hit["item"] for hit in online("search", "excluder", "--json").json]


def test_switch_in_prefect_pauses_a_source_until_it_is_resumed(online: Cli, server: Running, tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    name, remedy = "console-switched", "resume with `catchment sources resume console-switched`"
    assert online("add", "local_files", str(tmp_path / "papers"), "--name", name, "--every", "1d").code == 0
    runs.switch(server, "local_files", name, on=False)

    refused = online("sync", name)
    assert (refused.code, refused.err) == (5, f"catchment: {name}: paused (switched off in Prefect); {remedy}\n")
    assert f"skipped {name}: paused (switched off in Prefect)" in online("sync", "--all").err
    assert f"{name}: paused (switched off in Prefect); {remedy}" in online("status").out
    [source] = [one for one in online("status", "--json").json["sources"] if one["name"] == name]
    assert (source["state"], source["waits"][0]["why"], source["next_run"]) == (
        "paused",
        "switched off in Prefect",
        None,
    )
    assert online("sources", "show", name, "--json").json["line"]["standing"]["state"] == "paused"
    assert (
        online("sources", "next", name).err == f"{name}: no run planned: paused (switched off in Prefect); {remedy}\n"
    )
    for command in ("health", "doctor"):
        found = [one for one in online(command, "--json").json["findings"] if one["probe"] == f"source {name}"]
        assert [(one["verdict"], one["remedy"]) for one in found] == [("warn", f"catchment sources resume {name}")]

    assert online("sources", "resume", name).code == 0
    assert online("sync", name, "--wait").code == 0
    assert online("sources", "next", name).out

    def standing() -> tuple[str, str]:
        [source] = [one for one in online("status", "--json").json["sources"] if one["name"] == name]
        return source["state"], source["next_run"]["why"]

    # The resumed source was also synced by itself; that run may still be waiting.
    until(standing, lambda found: found == ("active", "schedule"))
    assert online("sources", "remove", name, "--yes").code == 0


def test_worker_reports_what_the_server_says_of_the_sources(server: Running, server_home: Home) -> None:
    found = until(lambda: ServerReport.read(server_home))
    assert datetime.now(UTC) - found.at < timedelta(minutes=10)


def test_up_says_that_it_runs_already(online: Cli, server: Running) -> None:
    response = online("up", "--detach")
    assert (response.code, server.url in response.out) == (0, True)


def test_source_that_is_refused_after_its_deploy_is_undeployed(
    online: Cli, server: Running, server_home: Home, tmp_path: Path
) -> None:
    (tmp_path / "papers").mkdir()
    (tmp_path / "vault" / ".obsidian").mkdir(parents=True)
    assert online("add", "obsidian", str(tmp_path / "vault"), "--name", "console-kind").code == 0
    # The operator removed the entry from the file; the library still has the source.
    with SourcesFile.changing(server_home.sources_file) as file:
        file.remove("console-kind")
    result = online("add", "local_files", str(tmp_path / "papers"), "--name", "console-kind")
    assert (result.code, "of kind obsidian" in result.err) == (5, True)
    assert not is_deployed(server, "sync-local_files", "console-kind")
    assert online("sources", "remove", "console-kind", "--yes").code == 0
