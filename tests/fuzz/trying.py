"""How a test tries a target: the kept cases first, then what Hypothesis makes of its input."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz.target import Target

_EXAMPLES = 50


def attempt(target: Target, times: int) -> None:
    """Try the kept cases and some new input: the same each time in an ordinary run, other input in a longer one."""
    for case in target.kept():
        target.check(case.read_bytes())
    _make(target, _EXAMPLES * times, target.check)


def examples(target: Target) -> list[bytes]:
    """The input that an ordinary run makes."""
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
