"""Whether a forked run has the settings that its fork server has read, or has to read them anew."""

from __future__ import annotations

import pytest
from deployments.warm.forge import _has_settings, _spellings
from prefect.settings import PREFECT_WORKER_QUERY_SECONDS, temporary_settings

_NAME = "PREFECT_WORKER_QUERY_SECONDS"


@pytest.mark.parametrize(("said", "same"), [("15", True), ("15.0", True), ("16", False), (None, False)])
def test_a_setting_counts_as_the_same_however_it_is_spelled(
    monkeypatch: pytest.MonkeyPatch, said: str | None, *, same: bool
) -> None:
    monkeypatch.setenv(_NAME, "15")
    with temporary_settings({PREFECT_WORKER_QUERY_SECONDS: 15}):
        before = _spellings()
    if said is None:
        monkeypatch.delenv(_NAME)
    else:
        monkeypatch.setenv(_NAME, said)
    assert _has_settings(before) is same


def test_a_setting_that_is_new_has_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _spellings()
    monkeypatch.setenv("PREFECT_LOGGING_LEVEL", "DEBUG")
    assert not _has_settings(before)
