"""How a test tries a target: the kept cases first, then what Hypothesis makes of its input."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz.target import Target

_EXAMPLES = 100


def attempt(target: Target, times: int) -> None:
    """Try the kept cases and some new input: the same each time in an ordinary run, other input in a longer one."""
    for case in target.kept():
        target.check(case.read_bytes())

    @settings(
        max_examples=_EXAMPLES * times,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(target.inputs)
    def holds(data: bytes) -> None:
        target.check(data)

    holds()
