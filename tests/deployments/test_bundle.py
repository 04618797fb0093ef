"""The bundle of `doctor`: its content, and the private data that it must not have."""

from __future__ import annotations

import zipfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from catchment.errors import BadInput
from catchment.ledger import Incident, Ledger
from catchment.runtime.home import Home
from deployments.health import bundle
from deployments.health.bundle import Mask, contents, write

SECRET = "ghp_" + "a" * 30


def test_names_become_numbers_and_the_same_name_the_same_number() -> None:
    mask = Mask({"notes": "source", "my-notes": "source"})
    text = "my-notes: Bees.md failed\nnotes: 'Old wall', Bees.md; see `catchment logs worker`, notes-2"
    assert mask(text) == "source-1: <name 1> failed\nsource-2: <name 2>, <name 1>; see `catchment logs worker`, notes-2"
    assert mask("notes: the old wall.md failed, as in sources.yaml") == (
        "source-2: <name 3> failed, as in sources.yaml"
    )


def test_names_of_sinks_hosts_and_people_are_masked_wherever_they_are(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of what was removed since, as the sink `gone`."""
    monkeypatch.setattr(bundle, "prometheus", lambda _series: b'catchment_machine_up{machine="attic"} 1.0')
    moment = datetime.now(UTC)
    silent = Incident(0, "host.silent", "machine:attic", moment, None, "attic: no answer", "", ())
    failing = Incident(0, "sink.failing", "sink:gone", moment, None, "gone: away", "", ())
    with closing(Ledger.open(home)) as ledger:
        ledger.outbox.add("shelf", "jsonl", "/srv/copy", None, "operator:anna", wants_vectors=False)
        for stored in ledger.incidents.save([silent, failing]):
            ledger.incidents.acknowledge(stored.id, "operator:anna", "ask Berta")
    home.logs.mkdir(exist_ok=True)
    (home.logs / "worker.log").write_text("shelf: delivered by attic\n")
    files = contents(home)
    text = "\n".join(text for name, text in files.items() if name != "versions.txt")
    assert [name for name in ("attic", "shelf", "gone", "anna", "Berta") if name in text] == []


@pytest.mark.parametrize(
    "kept", ["catchment.sync.batch: failed", "it can't be read, and it's late", "Prefect 3.7.8", "sync.failed"]
)
def test_words_of_ours_are_kept(kept: str) -> None:
    assert Mask({"notes": "source"})(kept) == kept


def test_secrets_addresses_and_paths_are_removed() -> None:
    masked = Mask({})(f"{SECRET} of ann@example.org in /home/ann/Vault/Bees.md")
    assert not any(word in masked for word in (SECRET, "example", "ann", "Vault", "Bees"))


def test_bundle_is_private_and_never_replaces_a_file(tmp_path: Path) -> None:
    file = tmp_path / "new" / "report.zip"
    write(file, {"health.json": "[]", "logs/worker.log": "started"})
    assert file.stat().st_mode & 0o777 == 0o600
    assert zipfile.ZipFile(file).read("logs/worker.log") == b"started"
    with pytest.raises(BadInput, match="exists already"):
        write(file, {})
