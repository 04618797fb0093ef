"""Runs the programs that a connector needs within a flow, as Prefect shell operations, which log each execution."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from catchment.contracts import MOST_OUTPUT, Ended
from catchment.errors import HomeUnavailable

_LOOK_SECONDS = 0.5


def run_in_flow(
    command: Sequence[str], environment: Mapping[str, str], seconds: float, silence: float | None = None
) -> Ended:
    """Run a program, as `Shell` describes. Call it from a thread without an event loop.

    The log has pids and exit codes only. Raises HomeUnavailable if the program cannot be started, for example because there is
    no room for temporary files.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="catchment-") as folder:
            output = Path(folder, "output")
            # A file, because the operation cannot read output that is not UTF-8.
            line = f"exec {shlex.join(command)} >{shlex.quote(str(output))} 2>&1 </dev/null"
            code = asyncio.run(_run(line, dict(environment), output, seconds, silence))
            return Ended(code, output.read_text("utf-8", "replace") if output.exists() else "")
    except OSError as error:
        problem = error.strerror or type(error).__name__
    temporary = os.environ.get("TMPDIR", "/tmp")
    raise HomeUnavailable(
        f"a program could not be run ({problem}); check that {temporary} has space for temporary files"
    )


async def _run(
    line: str, environment: dict[str, str], output: Path, seconds: float, silence: float | None
) -> int | None:
    """Return the exit code; None if the program was killed at a limit."""
    from prefect_shell import ShellOperation

    async with ShellOperation(commands=[line], env=environment, stream_output=False) as operation:
        process = await operation.atrigger()
        watch = asyncio.create_task(_limit_reached(output, seconds, silence))
        completion = asyncio.create_task(process.await_for_completion())
        await asyncio.wait({watch, completion}, return_when=asyncio.FIRST_COMPLETED)
        is_over = completion.done()
        if not is_over:
            # Prefect terminates the program's session, and waits for it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for task in (watch, completion):
            task.cancel()
        # A failure also shows in the exit code.
        await asyncio.gather(watch, completion, return_exceptions=True)
        return int(process.return_code) if is_over else None


async def _limit_reached(output: Path, seconds: float, silence: float | None) -> None:
    """Return when the time limit, the limit of silence or the limit of output is reached."""
    clock = asyncio.get_running_loop()
    ends = clock.time() + seconds
    size, grew = 0, clock.time()
    while (now := clock.time()) < ends:
        if (written := output.stat().st_size if output.exists() else 0) != size:
            size, grew = written, now
        if size > MOST_OUTPUT or (silence is not None and now - grew >= silence):
            return
        await asyncio.sleep(min(_LOOK_SECONDS, ends - now))
