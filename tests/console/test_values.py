"""Values on the command line: parsed, or refused with an example."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from catchment.errors import BadInput
from catchment.settings import LimitChanges, SourceSettings
from catchment.typed_settings import settings
from connectors.local_files import LocalFilesSettings
from console import arguments
from deployments.sources.entries import typed


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("2 h", timedelta(hours=2)),
        ("4W", timedelta(28)),
    ],
)
def test_lengths_of_time_are_a_number_and_a_unit(text: str, length: timedelta) -> None:
    assert arguments.length(text) == length


@pytest.mark.parametrize("text", ["", "10", "h", "-1h", "1.5h", "2 fortnights", "9999999d"])
def test_what_is_no_length_of_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadInput, match="15m, 2h, 30d"):
        arguments.length(text)


def test_a_moment_is_a_date_or_a_length_of_time_before_now() -> None:
    assert arguments.moment("2026-11-20T14:00:00+02:00") == datetime(2026, 11, 20, 12, tzinfo=UTC)
    before = datetime.now(UTC) - timedelta(hours=2)
    assert timedelta(0) <= arguments.moment("2h") - before < timedelta(minutes=1)
    with pytest.raises(BadInput, match="2026-11-20"):
        arguments.moment("yesterday")


def test_settings_are_typed_by_their_yaml_and_reach_inside_by_dots() -> None:
    given = ["hidden=true", "limits.max_mb=20", "limits.memory_mb=512", "exclude=[a, 'b*']", "title=x=y"]
    assert settings(given) == {
        "hidden": True,
        "limits": {"max_mb": 20, "memory_mb": 512},
        "exclude": ["a", "b*"],
        "title": "x=y",
    }


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("*.tmp", "*.tmp"),
        ("**/build/", "**/build/"),
        ("!keep.md", "!keep.md"),
        ("&c.txt", "&c.txt"),
        ("%old%", "%old%"),
        ("@eaDir", "@eaDir"),
        ("a?.md", "a?.md"),
        ("[*.md, docs/**]", ["*.md", "docs/**"]),
        ("[!a.md,'*.b',@c,%d]", ["!a.md", "*.b", "@c", "%d"]),
        ("[true, 2, x]", [True, 2, "x"]),
        ("", ""),
    ],
)
def test_a_pattern_needs_no_quotes(given: str, read: object) -> None:
    assert settings([f"exclude={given}"]) == {"exclude": read}


def test_one_value_is_enough_where_a_list_is_wanted() -> None:
    settings = typed(LocalFilesSettings, {"root": "/papers", "exclude": "*.tmp", "include": ["*.md", "docs/**"]})
    assert (settings.exclude, settings.include) == (("*.tmp",), ("*.md", "docs/**"))
    assert typed(LocalFilesSettings, {"root": "/papers", "exclude": ""}).exclude == ()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["hidden"], "key=value"),
        (["=x"], "key=value"),
        (["a=1", "a=2"], "twice"),
        (["a=1", "a.b=2"], "twice"),
        (["a=[1"], "YAML"),
        (['a="open'], "YAML"),
    ],
)
def test_settings_that_cannot_be_read_are_refused(given: list[str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        settings(given)


def test_a_secret_is_taken_by_reference_only_and_never_repeated() -> None:
    assert arguments.secrets(["password=env:MAIL"]) == {"password": "env:MAIL"}
    with pytest.raises(BadInput) as refused:
        arguments.secrets(["password=hunter2"])
    assert "hunter2" not in str(refused.value)
    assert "env:VARIABLE" in str(refused.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"priorty": "high"}, "priorty: unknown setting; did you mean priority"),
        ({"zzz": 1}, "choose from "),
        ({"priority": "urgent"}, "priority: "),
        ({"limits": {"max_mb": "lots"}}, "limits.max_mb: "),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_right(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        typed(SourceSettings, given)


def test_settings_are_shown_as_they_are_set() -> None:
    settings = SourceSettings(limits=LimitChanges(max_mb=20)).model_dump(mode="json", exclude_defaults=True)
    assert arguments.flat(settings)["limits.max_mb"] == 20


def test_a_summary_leaves_out_what_did_not_happen() -> None:
    assert arguments.summary({"succeeded": 3, "moved": 1, "deleted": 0, "listed": 40}) == "3 added or updated, 1 moved"
    assert arguments.summary({"succeeded": 0}) == "nothing to do"
    assert arguments.summary({}, is_complete=False) == ""


def test_a_file_of_a_secret_is_found_from_every_folder() -> None:
    given = ["a=file:secret", "b=file:/s", "c=file:~/s", "d=env:S", "e=file:"]
    here = str(Path.cwd() / "secret")
    assert list(arguments.secrets(given).values()) == [f"file:{here}", "file:/s", "file:~/s", "env:S", "file:"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"limits": {"max_mb": "lots"}}, "limits.max_mb: must be a number"),
        ({"limits": {"max_mb": 0}}, "limits.max_mb: must be greater than 0"),
        ({"retry": {"attempts": "lots"}}, "retry.attempts: must be a whole number"),
        ({"limits": 3}, "limits: must be a group of keys and values"),
        ({"priority": "urgent"}, "priority: unknown value; choose 'high', 'normal' or 'low'"),
        ({"retry": {"initial": "soon"}}, "retry.initial: must be a number"),
    ],
)
def test_validation_errors_are_in_our_words(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        typed(SourceSettings, given)
