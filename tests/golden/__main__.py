"""`python -m tests.golden`: record the interface for scripts anew, after it was changed on purpose; read the diff with git."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.golden.record import (
    CALLS,
    COMMANDS,
    SERVED_CALLS,
    SERVED_SHAPES,
    SHAPES,
    commands,
    run_process,
    serving,
    shape_of_output,
    unpack,
)


def main() -> int:
    _write(COMMANDS, commands())
    _write(SHAPES, _shapes())
    _write(SERVED_SHAPES, _served_shapes())
    return 0


def _shapes() -> dict[str, Any]:
    shapes = {}
    for call in CALLS:
        with tempfile.TemporaryDirectory() as folder:
            unpack(Path(folder))
            shapes[call] = shape_of_output(Path(folder), call)
    return shapes


def _served_shapes() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, serving(unpack(Path(folder))):
        return {call: shape_of_output(Path(folder), call, run_process) for call in SERVED_CALLS}


def _write(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
