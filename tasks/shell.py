"""How the programs that a connector needs are run within a flow: as shell operations of Prefect, which log that they ran."""

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
    """As `Shell`; from a thread without an event loop. The log has numbers of processes and exit codes, and nothing else.

    Raises HomeUnavailable where the program cannot be begun, as where there is no room for temporary files.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="catchment-") as folder:
            said = Path(folder, "said")
            # Into a file: the operation cannot read what is not UTF-8.
            line = f"exec {shlex.join(command)} >{shlex.quote(str(said))} 2>&1 </dev/null"
            code = asyncio.run(_run(line, dict(environment), said, seconds, silence))
            return Ended(code, said.read_text("utf-8", "replace") if said.exists() else "")
    except OSError as error:
        why = error.strerror or type(error).__name__
    room = os.environ.get("TMPDIR", "/tmp")
    raise HomeUnavailable(f"a program could not be run ({why}); check that {room} has room for temporary files")


async def _run(
    line: str, environment: dict[str, str], output: Path, seconds: float, silence: float | None
) -> int | None:
    """The exit code; None where it was stopped."""
    from prefect_shell import ShellOperation

    async with ShellOperation(commands=[line], env=environment, stream_output=False) as operation:
        process = await operation.atrigger()
        watch = asyncio.create_task(_limit_reached(output, seconds, silence))
        completion = asyncio.create_task(process.await_for_completion())
        await asyncio.wait({watch, completion}, return_when=asyncio.FIRST_COMPLETED)
        is_over = completion.done()
        if not is_over:
            # Prefect asks the session of the program to end, and waits for it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for task in (watch, completion):
            task.cancel()
        # A failure shows in the exit code as well.
        await asyncio.gather(watch, completion, return_exceptions=True)
        return int(process.return_code) if is_over else None


async def _limit_reached(output: Path, seconds: float, silence: float | None) -> None:
    """Return once a limit of `Shell` is reached."""
    clock = asyncio.get_running_loop()
    ends = clock.time() + seconds
    size, grew = 0, clock.time()
    while (now := clock.time()) < ends:
        if (written := output.stat().st_size if output.exists() else 0) != size:
            size, grew = written, now
        if size > MOST_OUTPUT or (silence is not None and now - grew >= silence):
            return
        await asyncio.sleep(min(_LOOK_SECONDS, ends - now))
