"""`emulate`, a stateful third-party GitHub API server from npm, run on loopback behind our proxy."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.connectors.github.proxy import Exchange, Proxy
from tests.connectors.github.server import PREFIX
from tests.waiting import PATIENCE

TOKEN = "the-token-of-ada"
_REPO = "/repos/ada/weir"


class Emulator:
    """The server with the repository `ada/weir`.

    It lacks ETags, which the proxy adds, and listings of all comments in a repository, which this class adds.
    """

    def __init__(self, port: int, proxy: Proxy) -> None:
        self.proxy = proxy
        self._http = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False
        )

    def do(self, method: str, path: str, **what: Any) -> Any:
        """Send a request to the server, bypassing the proxy."""
        response = self._http.request(method, f"{_REPO}{path}", json=what or None).raise_for_status()
        return response.json() if response.content else None

    def complete(self, exchange: Exchange) -> None:
        """Answer the requests that the server does not support: comments of all issues, and reviews (always empty)."""
        url = urlsplit(exchange.path)
        if exchange.status != 404 or not url.path.endswith("/comments"):
            return
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        found: list[dict[str, Any]] = []
        if url.path.endswith("/issues/comments"):
            for issue in self.do("GET", "/issues?state=all&per_page=100"):
                found += self.do("GET", f"/issues/{issue['number']}/comments?per_page=100")
        found = [record for record in found if record["updated_at"] >= query.get("since", "")]
        found.sort(key=lambda record: (record["updated_at"], record["id"]), reverse=query.get("direction") == "desc")
        body = json.dumps(found[: int(query["per_page"])]).encode()
        etag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
        exchange.respond(304 if exchange.request_headers.get("if-none-match") == etag else 200, body, ETag=etag)
        exchange.headers["Content-Type"] = "application/json"
        exchange.body = exchange.body if exchange.status == 200 else b""
        self.proxy.free += exchange.status == 304

    def close(self) -> None:
        self._http.close()


def installed(folder: Path, what: str = "npm") -> Path:
    """Install one of our pinned package lists (`npm`, `contract`) into a folder, without running scripts."""
    for path in Path(__file__).with_name(what).iterdir():
        shutil.copy(path, folder)
    install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=200)
    return folder / "node_modules"


@contextmanager
def emulating(folder: Path) -> Iterator[Emulator]:
    """Install the server into a folder and run it."""
    installed(folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    proxy = Proxy(port, prefix=PREFIX)
    command = ["node", "start.mjs", str(port), f"{proxy.address}{PREFIX}"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "listening\n"
        emulator = Emulator(port, proxy)
        yield emulator
        emulator.close()
    finally:
        process.terminate()
        process.wait(PATIENCE)
        process.stdout.close()
        proxy.close()
