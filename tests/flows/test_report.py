"""The artifacts of a sync in Prefect."""

from __future__ import annotations

import re

from tasks.artifacts import artifact_key


def test_similar_source_names_have_different_artifact_keys() -> None:
    names = ("my-notes", "my_notes", "my_-notes", "my-_notes", "my--notes", "my__notes")
    assert len({artifact_key(name, "summary") for name in names}) == len(names)


def test_artifact_keys_are_valid_for_prefect_and_stable() -> None:
    assert artifact_key("my-notes", "summary") == "my-notes-summary"
    assert artifact_key("my_notes", "summary") == "my-notes-c23dc85a-summary"
    assert re.fullmatch(r"[a-z0-9-]+", artifact_key("a_" * 31, "progress"))
