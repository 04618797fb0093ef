"""Secrets in blocks of the Prefect server, read without importing Prefect."""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

from catchment.errors import LoginFailed
from catchment.runtime.secret_references import read_blocks_with
from deployments.server.client import api
from deployments.server.running import Running


def read_blocks_of(running: Running) -> None:
    """Resolve `block:NAME` in this process to the Secret block of this name on this server."""
    read_blocks_with(partial(_read, running))


def _read(running: Running, name: str) -> str:
    with api(running) as client:
        address = f"/block_types/slug/secret/block_documents/name/{quote(name, safe='')}"
        answer = client.get(address, params={"include_secrets": True})
        if answer.is_missing:
            raise LoginFailed(f"Secret block {name}: not found; create it in the Prefect UI under Blocks")
        # An error of the server does not mean that the block is missing.
        return str(answer.raise_for_status().json()["data"]["value"])
