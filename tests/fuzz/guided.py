"""`python -m tests.fuzz.guided TARGET FOLDER SECONDS`: coverage-guided fuzzing until an input fails.

Needs the extra `fuzz`. FOLDER stores the inputs with new coverage (`reached`, the seed of the next run) and the failing
one (`failed`). libFuzzer ends the process; `tests.fuzz.__main__` starts it and collects the results.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import atheris

PACKAGES = ["catchment", "connectors", "console", "deployments", "web", "assistant"]
_READERS = ["imapclient", "email", "quopri", "html"]
"""Third-party Python parsers that are instrumented too."""
_SLOW = 60
_MOST_BYTES = 4_096
_MOST_MB = 3_000


def main() -> None:
    """Fuzz until the time is up or an input fails."""
    name, folder, seconds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    reached, failed, words = folder / "reached", folder / "failed", folder / "words"
    reached.mkdir(parents=True, exist_ok=True)
    failed.mkdir(exist_ok=True)
    with atheris.instrument_imports(include=PACKAGES + _READERS):
        from tests.fuzz.every import every
        from tests.fuzz.trying import examples

        target, first = every()[name], failed / "made"
        made = examples(target)
        for data in made:  # modules imported on first use are instrumented too
            first.write_bytes(data)
            target.check(data)
        first.unlink()
    if not any(reached.iterdir()):
        # Seed with complete examples, which random mutation would take long to find.
        for number, data in enumerate(made):
            (reached / f"made-{number}").write_bytes(data[:_MOST_BYTES])
    words.write_text("".join(f'"{_written(word)}"\n' for word in target.inputs.words or [b"null"]))

    def one(data: bytes) -> None:
        if target.inputs.allow(data):
            target.check(data)

    limits = [f"-max_total_time={seconds}", f"-timeout={_SLOW}", f"-rss_limit_mb={_MOST_MB}", f"-max_len={_MOST_BYTES}"]
    places = [f"-artifact_prefix={failed}{os.sep}", f"-dict={words}", str(reached), *_kept(target.kept())]
    vary = target.inputs.varied
    atheris.Setup(
        [sys.argv[0], *limits, "-print_final_stats=1", *places],
        one,
        **({} if vary is None else {"custom_mutator": _either(vary)}),
    )
    atheris.Fuzz()


def _kept(cases: list[Path]) -> list[str]:
    return [str(cases[0].parent)] if cases else []


def _either(vary: Callable[[bytes, Random], bytes]) -> Callable[[bytes, int, int], bytes]:
    """Usually generate input of the same form, sometimes arbitrary bytes."""

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.2:
            return bytes(atheris.Mutate(data, most))
        return vary(data, random)[:most]

    return mutate


def _written(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main()
