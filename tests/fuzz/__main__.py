"""`python -m tests.fuzz TARGET…|all [--seconds N] [--distil N]`: coverage-guided fuzzing of our code.

Starts with the stored cases and earlier finds (build/fuzz/TARGET/reached). A failing input is minimized and written to
tests/fuzz/corpus/TARGET/fails-…, where every test run repeats it. `--distil` stores up to N inputs per target that
extend the coverage of the ordinary run most. Exits with 1 if an input failed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.distilled import chosen
from tests.fuzz.every import every
from tests.fuzz.smaller import failure, smaller
from tests.fuzz.target import Target
from tests.fuzz.trying import examples

_BUILD = Path("build").absolute() / "fuzz"
_SECONDS = 120
_MOST_BYTES = 2_000
_MOST_INPUTS = 1_500


def main() -> int:
    """Fuzz or distil the requested targets; return the exit code."""
    targets = every()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="+", choices=[*targets, "all"], metavar="TARGET", help=", ".join(targets))
    parser.add_argument("--seconds", type=int, default=_SECONDS, help="for each target")
    parser.add_argument("--distil", type=int, metavar="N", help="try nothing; keep at most N inputs of each target")
    asked = parser.parse_args()
    failed = 0
    for name in targets if "all" in asked.targets else asked.targets:
        if asked.distil is None:
            failed += _try(targets[name], asked.seconds)
        else:
            _distil(targets[name], asked.distil)
    return 1 if failed else 0


def _try(target: Target, seconds: int) -> int:
    """Fuzz one target; return the number of failing inputs."""
    folder = _BUILD / target.name
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, (folder / "log").open("wb") as log:
        command = [sys.executable, "-m", "tests.fuzz.guided", target.name, str(folder), str(seconds)]
        # libFuzzer exits without running Python's exit handlers; files that the target leaves are removed with this
        # folder.
        subprocess.run(command, stdout=log, stderr=log, env=os.environ | {"TMPDIR": temporary}, check=False)
    said = (folder / "log").read_text("utf-8", "replace").splitlines()
    inputs = next((line.split()[-1] for line in said if line.startswith("stat::number_of_executed_units")), None)
    found = sorted((folder / "failed").glob("*"))
    print(f"{target.name:16} {inputs or '?':>9} inputs, {len(found)} failed", flush=True)
    if inputs is None and not found:
        raise SystemExit(f"it ended before it began: {folder / 'log'}")
    for file in found:
        _keep(target, file)
    return len(found)


def _keep(target: Target, file: Path) -> None:
    """Store a minimized version of a failing input."""
    data, why = file.read_bytes(), failure(target.check, file.read_bytes())
    file.unlink()
    if why is None:
        print(f"  {file.name} fails no more")
        return
    print(f"  {why}", flush=True)
    _write(target, "fails", smaller(target.check, data))


def _distil(target: Target, most: int) -> None:
    reached = [file.read_bytes() for file in (_BUILD / target.name / "reached").glob("*")]
    short = sorted({data for data in reached if len(data) <= _MOST_BYTES and target.inputs.allow(data)}, key=len)
    if not short:
        return
    known = [*(case.read_bytes() for case in target.kept()), *examples(target)]
    found = chosen(target.check, known, short[:_MOST_INPUTS], most)
    print(f"{target.name:16} {len(found)} of {len(reached)}", flush=True)
    for data in found:
        _write(target, "reaches", data)


def _write(target: Target, what: str, data: bytes) -> None:
    target.corpus.mkdir(exist_ok=True)
    (target.corpus / f"{what}-{hashlib.sha256(data).hexdigest()[:8]}").write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
