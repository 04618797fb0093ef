"""Secrets in blocks of the Prefect server, read by the process of a run."""

from __future__ import annotations

from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound

from catchment.errors import LoginFailed


def read_block(name: str) -> str:
    """Return the value of the Secret block of this name. Raises LoginFailed if the block does not exist."""
    try:
        with get_client(sync_client=True) as client:
            return str(client.read_block_document_by_name(name, "secret").data["value"])
    except ObjectNotFound:
        raise LoginFailed(f"Secret block {name}: not found; create it in the Prefect UI under Blocks") from None
