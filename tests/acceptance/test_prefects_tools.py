"""Prefect's own server, worker and commands with the deployments of this project, as the README shows them."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.acceptance import document
from tests.acceptance.person import COMMAND, PROJECT, Person

pytestmark = [pytest.mark.acceptance, pytest.mark.long]


def test_every_command_of_the_readme_for_prefects_own_tools_works(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    readme = tmp_path / "README.md"
    readme.write_text((PROJECT / "README.md").read_text().replace(":4200/", f":{port}/"))
    variables = {
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]]),
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_SERVER_API_PORT": port,
    }
    environment = Person(tmp_path / "home", variables=variables).environment
    try:
        assert document.carry_out(readme, environment, PROJECT, under="With Prefect's own tools") > 10
    finally:
        subprocess.run([COMMAND.with_name("prefect"), "server", "stop"], env=environment, cwd=PROJECT, check=False)
