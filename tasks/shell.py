"""How the programs that a connector needs are run within a flow: as shell operations of Prefect, which log that they ran."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from catchment.contracts import Ended
from catchment.errors import HomeUnavailable


def run_in_flow(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> Ended:
    """As `Shell`; from a thread without an event loop. The log has numbers of processes and exit codes, and nothing else.

    Raises HomeUnavailable where the program cannot be begun, as where there is no room for temporary files.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="catchment-") as folder:
            said = Path(folder, "said")
            # Into a file: the operation cannot read what is not UTF-8.
            line = f"exec {shlex.join(command)} >{shlex.quote(str(said))} 2>&1 </dev/null"
            code = asyncio.run(_run(line, dict(environment), seconds))
            return Ended(code, said.read_text("utf-8", "replace") if said.exists() else "")
    except OSError as error:
        why = error.strerror or type(error).__name__
    room = os.environ.get("TMPDIR", "/tmp")
    raise HomeUnavailable(
        f"a program could not be run ({why}); see whether there is room in {room} for temporary files"
    )


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
