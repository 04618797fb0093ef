"""How the programs that a connector needs are run within a flow: as shell operations of Prefect, which log that they ran."""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from catchment.contracts import Ended


def run_in_flow(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> Ended:
    """As `Shell`; from a thread without an event loop. The log has numbers of processes and exit codes, and nothing else."""
    with tempfile.TemporaryDirectory(prefix="catchment-") as folder:
        said = Path(folder, "said")
        # Into a file: the operation cannot read what is not UTF-8.
        line = f"exec {shlex.join(command)} >{shlex.quote(str(said))} 2>&1 </dev/null"
        code = asyncio.run(_run(line, dict(environment), seconds))
        return Ended(code, said.read_text("utf-8", "replace") if said.exists() else "")


async def _run(line: str, environment: dict[str, str], seconds: float) -> int | None:
    """The exit code; None where it was stopped."""
    from prefect_shell import ShellOperation

    async with ShellOperation(commands=[line], env=environment, stream_output=False) as operation:
        process = await operation.atrigger()
        with suppress(TimeoutError):
            # A failure is told by the exit code too.
            with suppress(RuntimeError):
                await asyncio.wait_for(process.await_for_completion(), seconds)
            return int(process.return_code)
    return None
