"""Secrets that are kept in blocks of the Prefect server, read without loading Prefect."""

from __future__ import annotations

from functools import partial

from catchment.errors import LoginFailed
from catchment.secrets import read_blocks_with
from deployments.api import api
from deployments.server import Running


def read_blocks_of(running: Running) -> None:
    """Have `block:NAME` mean the Secret block of this name on this server, in this process."""
    read_blocks_with(partial(_read, running))


def _read(running: Running, name: str) -> str:
    with api(running) as client:
        address = f"/block_types/slug/secret/block_documents/name/{name}"
        answer = client.get(address, params={"include_secrets": True})
    if answer.is_error:
        raise LoginFailed(f"the server has no Secret block {name}; make it in the UI, under Blocks")
    return str(answer.json()["data"]["value"])
