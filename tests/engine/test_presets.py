"""The policy settings of a source: its preset, which bounds its share of the machine, and limits per item."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from benchmarks.notes import generate
from catchment.settings import Home, Limits, Policy
from catchment.sync.source_sync import open_sync
from connectors.github import GitHub
from connectors.github.settings import GitHubSettings
from connectors.obsidian import Obsidian, ObsidianSettings


def _policy(**settings: object) -> Policy:
    return ObsidianSettings.model_validate({"root": "/vault", **settings}).policy(Obsidian.policy)


def test_a_source_without_a_preset_works_as_standard() -> None:
    assert _policy() == _policy(preset="standard")
    assert (_policy().parsers, _policy().batch) == (2, 1_000)


def test_local_takes_less_than_standard_and_high_throughput_no_less() -> None:
    local, standard, high = (_policy(preset=name) for name in ("local", "standard", "high-throughput"))

    assert local.parsers < standard.parsers < high.parsers
    assert local.batch < standard.batch <= high.batch


def test_unset_limit_defaults_to_the_connector_limit() -> None:
    settings = GitHubSettings.model_validate({"repositories": ("ada/weir",), "limits": {"stall_seconds": 120}})
    limits = settings.policy(GitHub.policy).limits

    assert (limits.stall_seconds, limits.max_mb) == (120, GitHub.policy.limits.max_mb)
    assert GitHub.policy.limits.max_mb < Limits().max_mb, "else this shows nothing"


def test_unknown_preset_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(ValidationError, match="'local', 'standard' or 'high-throughput'"):
        _policy(preset="turbo")


def test_sync_claims_stay_within_the_source_preset(tmp_path: Path) -> None:
    generate(tmp_path / "vault", 260)
    settings = ObsidianSettings.model_validate({"root": tmp_path / "vault", "preset": "local"})
    policy = settings.policy(Obsidian.policy)
    with open_sync(Home(tmp_path / "home"), Obsidian(settings), "notes", policy, settings.priority) as sync:
        sync.discover()
        first = sync.claim(1_000)
        assert first is not None
        assert sync.normalize(first)["jobs"] == 250
        sync.process(first)
        second = sync.claim(1_000)
        assert second is not None
        sync.process(second)
        assert sync.finish("completed")["succeeded"] == 260
