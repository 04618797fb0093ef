"""Run a target in a test: the stored cases first, then input from Hypothesis."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz.target import Target

_EXAMPLES = 50


def attempt(target: Target, times: int) -> None:
    """Run the stored cases and new input: the same each time in an ordinary run, random input in a longer one."""
    for case in target.kept():
        target.check(case.read_bytes())
    _make(target, _EXAMPLES * times, target.check)


def examples(target: Target) -> list[bytes]:
    """Return the generated input of an ordinary run."""
    made: list[bytes] = []
    _make(target, _EXAMPLES, made.append)
    return made


def _make(target: Target, number: int, use: Callable[[bytes], None]) -> None:
    @settings(
        max_examples=number,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(target.inputs.made)
    def holds(data: bytes) -> None:
        use(data)

    holds()
