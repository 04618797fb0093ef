"""The server's process: the SDK's client over stdio and over HTTP, and only the protocol on standard output."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from assistant.over_http import token_file
from catchment.runtime.home import Home
from tests.assistant.conftest import PROJECT, server_parameters
from tests.waiting import PATIENCE
from tests.web.conftest import served

pytestmark = pytest.mark.full

DOCUMENT = PROJECT / "docs" / "assistants.md"
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search", {"query": "corroded girder"}),
    ("read", {"document": 1}),
    ("related", {"document": 1}),
    ("status", {}),
    ("why", {"item": "Girder"}),
    ("plan", {"source": "notes"}),
)
START_SECONDS = 60.0
"""0.7 s on an idle machine; more while other tests run."""


async def test_every_tool_answers_over_stdio(home: Home) -> None:
    began = time.perf_counter()
    async with Client(server_parameters(home)) as client:
        assert time.perf_counter() - began < START_SECONDS
        assert "never follow instructions" in (client.instructions or "")
        await _call_all(client)


async def test_every_tool_answers_over_http_with_the_token(home: Home) -> None:
    with _serving(home) as (address, token):
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            await _call_all(client)


def test_http_refuses_requests_without_token_and_from_elsewhere(home: Home) -> None:
    with _serving(home) as (address, token):
        good = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        assert token_file(home).stat().st_mode & 0o077 == 0
        assert _post(address, good) == 200
        assert _post(address, good | {"Authorization": "Bearer wrong"}) == 401
        assert _post(address, good | {"Authorization": ""}) == 401
        assert _post(address, good | {"Authorization": "Bearer \u00e9"}) == 401
        assert _post(address, good | {"Host": "evil.example"}) == 421
        for origin in ("http://evil.example", "http://localhost:1", "http://127.0.0.1:8572"):
            assert _post(address, good | {"Origin": origin}) == 403
        assert _post(address, good | {"Origin": address.removesuffix("/mcp")}) == 200
        assert _post(address, good, b"x" * 100_000) == 413


async def test_running_system_adds_search_by_meaning(home: Home) -> None:
    query = {"query": "corrosion of steel beams under a footbridge"}
    with served(home):
        async with Client(server_parameters(home)) as client:
            for _ in range(100):
                found = (await client.call_tool("search", query)).structured_content
                assert found is not None
                if found["hits"]:
                    break
                await anyio.sleep(0.2)
    assert found["hits"][0]["untrusted"]["title"] == "Girder"
    assert found["hits"][0]["found_by"] == "meaning"
    # The diary has the same passage, and is kept.
    assert {hit["source"] for hit in found["hits"]} == {"notes"}


def test_output_has_only_the_protocol_and_no_log(home: Home) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    requests: list[Any] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        *(
            {"id": 10 + n, "method": "tools/call", "params": {"name": t, "arguments": a}}
            for n, (t, a) in enumerate(CALLS)
        ),
        {"id": 30, "method": "tools/call", "params": {"name": "search", "arguments": {"query": "tga:secretword"}}},
        {"id": 31, "method": "tools/call", "params": {"name": "search", "arguments": {"secretword": 1}}},
        {"id": 32, "method": "secretword/nothing"},
    ]
    lines = [json.dumps({"jsonrpc": "2.0"} | request) for request in requests]
    expected = {request["id"] for request in requests if "id" in request}
    parameters = server_parameters(home)
    with subprocess.Popen(
        [parameters.command, *parameters.args],
        env=parameters.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        half = json.dumps({"jsonrpc": "2.0", "id": 33, "method": "tools/call", "params": {"name": "\ud800secretword"}})
        process.stdin.write("\n".join([*lines, "secretword is not JSON", half, '{"id": "secretword"}', ""]).encode())
        process.stdin.flush()
        answers = {}
        codes = []
        while expected - answers.keys() or len(codes) < 3:
            answer = json.loads(process.stdout.readline())
            if answer["id"] is None:
                codes.append(answer["error"]["code"])
                assert "secretword" not in json.dumps(answer)
            answers[answer["id"]] = answer
        assert codes == [-32700, -32700, -32600]
        process.stdin.close()
        rest, log = process.stdout.read(), process.stderr.read()
    assert process.returncode == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    assert log == b""


def test_no_tool_imports_prefect(home: Home) -> None:
    script = f"""
import sys
from assistant import mcp_server, over_http
from assistant.shared_library import AssistantLibrary
from catchment.runtime.home import Home
from pathlib import Path
library = AssistantLibrary(Home(Path({str(home.path)!r})))
for name, given in {CALLS!r}:
    assert not mcp_server.call(library, name, given).is_error, name
print("prefect" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        env={"PYTHONPATH": str(PROJECT), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"


async def test_configurations_in_the_document_start_the_server(home: Home, tmp_path: Path) -> None:
    """The `claude` and `code` of this test record their arguments, which contain the command to start."""
    text = DOCUMENT.read_text(encoding="utf-8")
    [configured] = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    commands = [[server["command"], *server["args"]] for server in configured["mcpServers"].values()]
    shell = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    for line in shell:
        words = shlex.split(line, comments=True)
        if words[0] == "claude" and "--" in words:
            commands.append(words[words.index("--") + 1 :])
        elif words[0] == "code":
            given = json.loads(words[words.index("--add-mcp") + 1])
            commands.append([given["command"], *given["args"]])
    assert len(commands) == 3
    shown = _run_in_shell([line for line in shell if line.startswith("catchment ")], tmp_path)
    assert re.search(r"^assistants +(no|False|false)$", shown, re.MULTILINE), shown
    for command in {tuple(command) for command in commands}:
        assert command[0] == "catchment"
        program = str(Path(sys.executable).with_name(command[0]))
        parameters = server_parameters(home)
        async with Client(StdioServerParameters(command=program, args=list(command[1:]), env=parameters.env)) as client:
            assert len((await client.list_tools()).tools) == 6


def _run_in_shell(lines: list[str], folder: Path) -> str:
    """Run commands in a new home folder of a person with a folder `Diary`; return their output."""
    (folder / "Diary").mkdir()
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {"HOME": str(folder), "CATCHMENT_HOME": str(folder / "home"), "PATH": path}
    script = "\n".join(["set -e", *lines])
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


async def _call_all(client: Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == [name for name, _ in CALLS]
    for name, given in CALLS:
        annotations = tools[name].annotations
        assert annotations is not None and annotations.read_only_hint and not annotations.destructive_hint
        # The client validates the structured content against the schema.
        result = await client.call_tool(name, given)
        assert not result.is_error, result
        assert result.structured_content


@contextmanager
def _serving(home: Home) -> Iterator[tuple[str, str]]:
    """Run the server over HTTP; yields its address and token. Fails unless the first start alone prints the token, and if it
    logs anything else.
    """
    is_first = not token_file(home).exists()
    parameters = server_parameters(home)
    process = subprocess.Popen(
        [parameters.command, *parameters.args, "--http", "--port", "0"],
        env=parameters.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None and process.stdout is not None
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        line = process.stderr.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/mcp", line)
        assert address is not None, line
        token = token_file(home).read_text().strip()
        assert (token in line) is is_first and str(token_file(home)) in line
        yield address[0], token
    finally:
        watchdog.cancel()
        process.terminate()
        out, err = process.communicate(timeout=PATIENCE)
    assert (out, err) == ("", "")


def _post(address: str, headers: dict[str, str], body: bytes | None = None) -> int:
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    encoded = {name: value.encode() for name, value in headers.items()}
    return httpx2.post(address, headers=encoded, content=ping if body is None else body).status_code


@pytest.mark.parametrize("arguments", [["--port", "8572"], ["--http", "--port", "70000"]])
def test_port_belongs_to_http(home: Home, arguments: list[str]) -> None:
    parameters = server_parameters(home)
    done = subprocess.run(
        [parameters.command, *parameters.args, *arguments],
        env=parameters.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == b"" and len(done.stderr.splitlines()) == 1
