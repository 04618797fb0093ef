"""`catchment mcp install` adds an entry to the configuration of each program and keeps the existing ones."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from assistant import clients
from catchment.runtime.home import Home
from tests.acceptance.person import COMMAND

OTHER = {"mcpServers": {"weather": {"command": "weather", "args": ["ö"]}}, "theme": "dark"}


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The home folder of a user with Cursor, Claude Desktop and VS Code."""
    for name in (".cursor", ".config/Claude", ".config/Code/User"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps(OTHER), encoding="utf-8")
    (tmp_path / ".cursor" / "mcp.json").chmod(0o644)
    return tmp_path


def install(user: Path, home: Home, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {"HOME": str(user), "CATCHMENT_HOME": str(home.path), "PATH": "/usr/bin:/bin"}
    command = [str(COMMAND), "mcp", "install", *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def entries(user: Path) -> list[dict[str, Any]]:
    files = {".cursor/mcp.json": "mcpServers", ".config/Claude/claude_desktop_config.json": "mcpServers"}
    files |= {".config/Code/User/mcp.json": "servers"}
    return [json.loads((user / file).read_text(encoding="utf-8"))[key]["catchment"] for file, key in files.items()]


def test_entry_is_added_beside_others_and_says_what_is_open(user: Path, home: Home) -> None:
    done = install(user, home)
    assert done.returncode == 0, done
    assert entries(user) == [clients.entry(home)] * 3
    cursor = user / ".cursor" / "mcp.json"
    written = json.loads(cursor.read_text(encoding="utf-8"))
    written["mcpServers"].pop("catchment")
    assert written == OTHER and cursor.stat().st_mode & 0o777 == 0o644
    assert "assistants can read: notes\nkept from assistants: diary, mail;" in done.stdout
    assert install(user, home).stdout.count("already in") == 3


def test_file_that_is_not_plain_json_is_left_alone(user: Path, home: Home) -> None:
    file = user / ".config" / "Code" / "User" / "mcp.json"
    file.write_text('{"servers": {}, // mine\n}')
    done = install(user, home)
    assert done.returncode == 2 and "add the entry of `catchment mcp install --print` yourself" in done.stderr
    assert file.read_text() == '{"servers": {}, // mine\n}' and "Cursor: added" in done.stdout


def test_print_writes_nothing_and_none_found_prints(user: Path, home: Home, tmp_path: Path) -> None:
    before = sorted(map(str, user.rglob("*")))
    done = install(user, home, "--print")
    assert sorted(map(str, user.rglob("*"))) == before and "Cursor: " in done.stdout
    (tmp_path / "nobody").mkdir()
    alone = install(tmp_path / "nobody", home)
    printed, _ = json.JSONDecoder().raw_decode(alone.stdout)
    assert printed == {"mcpServers": {"catchment": clients.entry(home)}} and "no program" in alone.stderr


@pytest.mark.full
async def test_written_entry_starts_the_server(user: Path, home: Home) -> None:
    install(user, home)
    for entry in entries(user):
        given = StdioServerParameters(command=entry["command"], args=entry["args"], env=entry["env"])
        async with Client(given) as client:
            assert len((await client.list_tools()).tools) == 6
