"""The bundle of `doctor`: its content, and the private data that it must not have."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from catchment.errors import BadInput
from deployments.health.bundle import Mask, write

SECRET = "ghp_" + "a" * 30


def test_names_become_numbers_and_the_same_name_the_same_number() -> None:
    mask = Mask(["notes", "my-notes"])
    text = "my-notes: Bees.md failed\nnotes: 'Old wall' is like Bees.md; see `catchment logs worker`, notes-2"
    assert mask(text) == (
        "source-1: <name 1> failed\nsource-2: <name 2> is like <name 1>; see `catchment logs worker`, notes-2"
    )


@pytest.mark.parametrize("kept", ["catchment.sync.batch: failed", "it can't be read, and it's late", "Prefect 3.7.8"])
def test_words_of_ours_are_kept(kept: str) -> None:
    assert Mask(["notes"])(kept) == kept


def test_secrets_addresses_and_paths_are_removed() -> None:
    masked = Mask([])(f"{SECRET} of ann@example.org in /home/ann/Vault/Bees.md")
    assert not any(word in masked for word in (SECRET, "example", "ann", "Vault", "Bees"))


def test_bundle_is_private_and_never_replaces_a_file(tmp_path: Path) -> None:
    file = tmp_path / "new" / "report.zip"
    write(file, {"health.json": "[]", "logs/worker.log": "started"})
    assert file.stat().st_mode & 0o777 == 0o600
    assert zipfile.ZipFile(file).read("logs/worker.log") == b"started"
    with pytest.raises(BadInput, match="exists already"):
        write(file, {})
