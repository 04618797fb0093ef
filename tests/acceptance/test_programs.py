"""A program as a source of a running Catchment: as docs/programs.md has it, and against everybody who would choose another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from deployments.server.client import api, deployment_named
from tests.acceptance import document
from tests.acceptance.person import PROJECT, Person, at_terminal
from tests.connectors.programs.scripts import write_script
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_FILE = re.compile(r'^```python title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_TAP = """
import json, os, sys
print("starts; key " + "ghp_" + "aB3dE5gH7j" * 3 + "kL9mN1" + chr(27) + "[31m", file=sys.stderr)
print(json.dumps({"type": "RECORD", "stream": "birds", "record": {"id": 1, "name": "Dipper", "text": "zyxweir"}}))
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with at_terminal(tmp_path) as person:
        yield person


def test_every_command_of_the_page_about_programs_works_as_documented(person: Person, tmp_path: Path) -> None:
    page = PROJECT / "docs" / "programs.md"
    for name, code in _FILE.findall(page.read_text(encoding="utf-8")):
        (tmp_path / name).write_text(code)
    configuration = Path(person.environment["HOME"]) / ".config" / "rclone" / "rclone.conf"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(f"[drive]\ntype = alias\nremote = {tmp_path / 'drive'}\n")
    (tmp_path / "drive" / "Papers").mkdir(parents=True)
    (tmp_path / "drive" / "Papers" / "weir.md").write_text("# Weir\n")
    variables = {**person.environment, "CATCHMENT_HOME": str(tmp_path / "state")}
    assert document.carry_out(page, variables, tmp_path) >= 8


def test_only_a_command_chooses_what_runs(person: Person, tmp_path: Path) -> None:
    command = str(write_script(tmp_path, _TAP))
    person("add", "program", command, "--name", "birds").refused(5, "no consent")
    person("add", "program", command, "--name", "birds", "--consent").ok()
    person("sync", "birds", "--wait").ok()
    assert person.hits("zyxweir", "birds")
    home = tmp_path / "state"
    address = f"http://127.0.0.1:{(home / 'web-port').read_text().strip()}/api/v1/actions"
    headers = {"Authorization": f"Bearer {(home / 'web-token').read_text().strip()}"}
    with httpx.Client(headers=headers, trust_env=False, timeout=60) as client:
        for action, fields in (
            ("sources.add", {"kind": "program", "location": command, "name": "mine", "consent": True}),
            ("sources.change", {"name": "birds", "settings": {"config": {"a": 1}}}),
            ("consents.give", {"name": "birds"}),
        ):
            assert "only a command" in client.post(f"{address}/{action}", json=fields).text
    # Another command in a form of Prefect, or in the deployment itself.
    (tmp_path / "evil").mkdir()
    evil = str(write_script(tmp_path / "evil", "open(__file__ + '.ran', 'w')"))
    with api(person.running) as prefect:

        def end(parameters: Mapping[str, Any]) -> str:
            run = prefect.post(f"/deployments/{made['id']}/create_flow_run", json={"parameters": parameters}).json()
            return until(
                lambda: prefect.get(f"/flow_runs/{run['id']}").json()["state"]["name"],
                lambda name: name in ("Refused", "Skipped", "Completed", "Failed", "Quarantined"),
            )

        made = deployment_named(prefect, "sync-program", "birds")
        assert made is not None
        other = {**made["parameters"], "settings": {**made["parameters"]["settings"], "command": [evil]}}
        assert end(other) == "Refused"
        prefect.patch(f"/deployments/{made['id']}", json={"parameters": other}).raise_for_status()
        # Refused if the worker has put the deployment right meanwhile.
        assert end({}) in ("Skipped", "Refused")
        lines = until(
            lambda: {
                each["message"]
                for each in prefect.post("/logs/filter", json={"limit": 200}).json()
                if "starts; key" in each["message"]
            }
        )
    assert not Path(f"{evil}.ran").exists()
    assert lines == {"│ tap.py: starts; key «GitHub token»"}
    person("sources", "set", "birds", "config.place=here").ok()
    person("sync", "birds", "--wait").refused(5, "catchment consent give birds")
    person("consent", "give", "birds").ok()
    person("sync", "birds", "--wait").ok()
    # What a program printed before it failed is in the library.
    (tmp_path / "failing").mkdir()
    failing = str(write_script(tmp_path / "failing", f"{_TAP.replace('zyxweir', 'zyxferry')}\nsys.exit(1)"))
    person("add", "program", failing, "--name", "half", "--consent").ok()
    assert person("sync", "half", "--wait").code != 0
    assert person.hits("zyxferry", "half")
