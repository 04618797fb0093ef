"""The section of docs/install.md about Prefect's own tools, carried out on a free port."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance import document
from tests.acceptance.person import COMMAND, PROJECT, Person

_STOP = "$ prefect server stop\n…\n"


@contextmanager
def carried_out(folder: Path, *, keeps_server: bool = False) -> Iterator[tuple[str, int]]:
    """Yield the server's address and the number of commands. With `keeps_server`, the last one, which stops it, is left out."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    text = (PROJECT / "docs" / "install.md").read_text().replace(":4200/", f":{port}/")
    assert _STOP in text
    page = folder / "install.md"
    page.write_text(text.replace(_STOP, "") if keeps_server else text)
    variables = {
        "HOME": str(folder),
        "PATH": os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]]),
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_SERVER_API_PORT": port,
    }
    environment = Person(folder / "home", variables=variables).environment
    try:
        commands = document.carry_out(page, environment, PROJECT, under="With Prefect's own tools")
        yield f"http://127.0.0.1:{port}", commands
    finally:
        subprocess.run([COMMAND.with_name("prefect"), "server", "stop"], env=environment, cwd=PROJECT, check=False)
