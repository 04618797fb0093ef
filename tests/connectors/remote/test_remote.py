"""Remotes of rclone: what names one, what is listed, and that only the listed version is read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from catchment.errors import (
    BadInput,
    FetchFailed,
    LoginFailed,
    ParseError,
    SkipReason,
    SourceInvalid,
    SourceUnavailable,
    StillChanging,
)
from connectors import child_program
from connectors.child_program import ProgramLimits, running
from connectors.contract.memory_ledger import MemoryLedger
from connectors.rclone import RemoteSettings
from tests.connectors.remote.storages import RCLONE, configure, remote


@pytest.fixture
def box(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the remote `box`."""
    configure(monkeypatch, tmp_path, box={"type": "alias", "remote": str(root)})
    return root


@pytest.fixture
def script(tmp_path: Path, box: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of rclone, whose text a test writes."""
    assert box
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setattr("sys.executable", str(place / "python"))
    (place / "rclone").touch(mode=0o755)
    return place / "rclone"


def play(script: Path, lists: str, *, features: str = "{}", copies: str = "true") -> None:
    """Write a program in place of rclone: its listing, and commands of the shell in place of a copy."""
    script.write_text(
        f"#!/bin/sh\ncase $1 in\nbackend) echo '{features}';;\nlsjson) {lists}\n;;\ncopy) {copies}\n;;\nesac\n"
    )


def printed(*rows: str) -> str:
    """Return the command that prints a listing."""
    return "echo '[\n{}\n]'".format(",\n".join(rows))


@pytest.mark.parametrize(
    "place",
    [
        ":local:/etc",
        ":sftp,host=example.org:",
        "box,type=local:/etc",
        "-box:",
        "/etc",
        "box",
        "",
        "box\n:",
        "bo/x:etc",
        " box:",
        "box :etc",
    ],
)
def test_only_names_of_remotes_are_accepted(place: str) -> None:
    with pytest.raises(BadInput, match="rclone config"):
        RemoteSettings.located(place)
    with pytest.raises(ValidationError):
        RemoteSettings(remote=place)


@pytest.mark.parametrize("place", ["box:", "My Drive:Papers, 2026", "box:/etc", "a.b+c-d@e_f:x:y"])
def test_names_of_remotes_are_accepted(place: str) -> None:
    assert RemoteSettings(**RemoteSettings.located(place)).remote == place


def test_remote_that_is_not_configured_is_reported(box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RCLONE_CONFIG_EVIL_TYPE", "alias")
    monkeypatch.setenv("RCLONE_CONFIG_EVIL_REMOTE", str(box))
    with pytest.raises(SourceInvalid, match="rclone evil: not in rclone's configuration; run `rclone config`"):
        remote("evil:").probe()


def test_missing_program_is_reported_with_its_remedy(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script.unlink()
    monkeypatch.setattr("connectors.rclone.PATHS", str(script.parent))
    with pytest.raises(SourceInvalid, match="not installed; run: pip install"):
        remote().probe()


def test_encrypted_configuration_needs_its_password(box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (box / "a.md").write_text("A")
    monkeypatch.setenv("OF_RCLONE", "secret-of-the-configuration")
    subprocess.run(
        [RCLONE, "config", "encryption", "set", "--password-command", "echo secret-of-the-configuration"],
        check=True,
        capture_output=True,
    )
    for given in ({}, {"password": "env:HOME"}):
        with pytest.raises(LoginFailed, match="configuration is encrypted; set `password`"):
            remote(**given).probe()
    assert remote(password="env:OF_RCLONE").probe() == "box:: 1 entry at the top"


def test_odd_names_are_read(box: Path, ledger: MemoryLedger) -> None:
    names = [
        "new\nline.md",
        'q"u\\ote.md',
        "ünïcode 🌾.md",
        "co:lon.md",
        "#hash.md",
        " space .md",
        "Case.md",
        "case.md",
    ]
    names += ["a/b/deep.md", "-dash.md", "x!/y.md", "tab\t.md", "*.md", "[a].md", "{b,c}.md", "empty.md", "．．/z.md"]
    for name in names:
        (box / name).parent.mkdir(parents=True, exist_ok=True)
        (box / name).write_text("" if name == "empty.md" else name)
    os.mkfifo(box / "pipe.md")
    (box / "link.md").symlink_to("case.md")
    log: list[str] = []
    report = ledger.sync(remote(log=log.append))
    assert report.failed == {}
    assert sorted(data.decode() for data in ledger.documents().values()) == sorted(
        "" if name == "empty.md" else name for name in names
    )
    assert {name for line in log for name in ("link.md", "pipe.md") if name in line} == {"link.md", "pipe.md"}
    assert ledger.sync(remote()).item_changes == []


def test_names_that_are_not_utf8_fail_alone(box: Path, ledger: MemoryLedger) -> None:
    (box / "good.md").write_text("good")
    (box / os.fsdecode(b"bad\xff.md")).write_text("bad")
    report = ledger.sync(remote())
    assert report.fetched == {"good.md"}
    assert [type(error) for error in report.failed.values()] == [ParseError]


def test_files_are_selected_by_patterns_and_size(box: Path, ledger: MemoryLedger) -> None:
    for name in ("a.md", "b.txt", ".hidden.md", "out/c.md", "~$d.md", "big.md"):
        (box / name).parent.mkdir(exist_ok=True)
        (box / name).write_text(name if name != "big.md" else "x" * 2_000_000)
    settings = {"include": ("*.md",), "exclude": ("/out/",)}
    report = ledger.sync(remote(limits={"max_mb": 1}, **settings))
    assert (report.fetched, report.skipped) == ({"a.md"}, {"big.md": SkipReason.TOO_LARGE})
    assert ledger.sync(remote(limits={"max_mb": 1}, **settings)).item_changes == []
    assert ledger.sync(remote(limits={"max_mb": 3}, **settings)).fetched == {"big.md"}
    assert remote(**settings).why_not("out/c.md") == "excluded by the source's settings"


def test_move_reads_nothing_and_an_edit_of_equal_size_is_seen(box: Path, ledger: MemoryLedger) -> None:
    (box / "old").mkdir()
    (box / "old" / "a.md").write_text("what it says")
    (box / "b.md").write_text("one")
    ledger.sync(remote())
    (box / "old").rename(box / "new")
    (box / "b.md").write_text("two")
    report = ledger.sync(remote())
    assert report.moved == {"old/a.md": "new/a.md"}
    assert report.fetched == {"b.md"}


def test_file_that_changes_after_the_listing_is_not_read(box: Path, ledger: MemoryLedger) -> None:
    for name in ("a.md", "b.md", "c.md"):
        (box / name).write_text(name)
    connector = remote()
    ledger.sync(connector, fetch=False)
    (box / "a.md").write_text("A.md")
    (box / "b.md").unlink()
    items = [row.item for row in ledger.present().values()]
    connector.expect(items)
    for item in items[:2]:
        with pytest.raises(StillChanging):
            connector.fetch(item)
    assert connector.fetch(items[2]).data == b"c.md"


def test_missing_folder_deletes_nothing(box: Path, ledger: MemoryLedger) -> None:
    (box / "a.md").write_text("A")
    ledger.sync(remote())
    box.rename(box.with_name("away"))
    with pytest.raises(SourceUnavailable, match="folder not found; restore it"):
        ledger.sync(remote())
    assert ledger.documents() == {"a.md": b"A"}


def test_unreadable_folder_inside_deletes_nothing(script: Path, ledger: MemoryLedger) -> None:
    play(script, "echo [; echo 'ERROR : sub: error listing: denied' >&2; echo ]; exit 1")
    with pytest.raises(SourceUnavailable, match="error listing: denied"):
        ledger.sync(remote())


@pytest.mark.parametrize("end", ["", "kill -9 $$", "echo '{'", "echo '[1],'; echo ]"])
def test_listing_that_ends_early_deletes_nothing(script: Path, ledger: MemoryLedger, end: str) -> None:
    row = '{"Path":"%s.md","Size":1,"ModTime":"2026-01-01T00:00:00Z","Hashes":{"md5":"0"}}'
    play(script, printed(row % "a", row % "b"))
    ledger.sync(remote(), fetch=False)
    assert len(ledger.present()) == 2
    play(script, f"echo '[\n{row % 'a'},'; {end}")
    with pytest.raises(SourceUnavailable, match="; "):
        ledger.sync(remote(), fetch=False)
    assert len(ledger.present()) == 2


def test_names_outside_of_the_folder_are_not_read(script: Path, tmp_path: Path, ledger: MemoryLedger) -> None:
    (tmp_path / "secret.md").write_text("secret")
    names = ["../secret.md", f"{tmp_path}/secret.md", "a/../../secret.md", "./secret.md", "a//secret.md"]
    play(script, printed(*(f'{{"Path":"{name}","Size":6}}' for name in names)), copies="mkdir copies")
    report = ledger.sync(remote(include=("secret.md",), hidden=True))
    assert report.fetched == set()
    assert report.failed.keys() == set(names)


def test_file_of_unknown_size_is_read_by_its_time(script: Path, ledger: MemoryLedger) -> None:
    rows = [f'{{"Path":"{name}.docx","Size":-1,"ModTime":"2026-01-01T01:00:00+01:00"}}' for name in "ab"]
    copies = "mkdir copies; echo A > copies/a.docx; touch -d 2026-01-01T00:00:00Z copies/a.docx; echo B > copies/b.docx"
    play(script, printed(*rows), copies=copies)
    report = ledger.sync(remote())
    assert (report.fetched, report.failed.keys()) == ({"a.docx"}, {"b.docx"})
    assert ledger.present()["a.docx"].item.size is None


def test_failed_copy_concerns_the_file_if_the_folder_can_be_listed(script: Path, ledger: MemoryLedger) -> None:
    play(script, printed('{"Path":"a.md","Size":1}'), copies="echo 'ERROR : it is locked' >&2; exit 1")
    (error,) = ledger.sync(remote()).failed.values()
    assert (type(error), str(error)) == (FetchFailed, "rclone: ERROR : it is locked; see its log")


def test_limits_of_a_run_end_it(script: Path) -> None:
    play(script, "sleep 60")
    with pytest.raises(SourceUnavailable, match=r"was silent for .* raise run.silent_minutes"):
        remote(run={"silent_minutes": 0.01}).probe()


def test_consent_is_bound_to_what_is_read() -> None:
    made = [remote(), remote("other:"), remote(exclude=("*.md",)), remote(hidden=True), remote(run={"hours": 1})]
    scopes = [next(iter(each.scopes())) for each in made]
    assert len({*scopes}) == 4
    assert scopes[0] == scopes[4] == made[0].scope_of("a.md")
    assert scopes[0].startswith("box: ")


def test_emptied_bucket_deletes_nothing(script: Path, ledger: MemoryLedger) -> None:
    features = '{"Features":{"BucketBased":true}}'
    play(script, printed('{"Path":"a.md","Size":1}'), features=features)
    ledger.sync(remote(), fetch=False)
    play(script, "echo '[\n]'", features=features)
    with pytest.raises(SourceUnavailable, match="lists nothing; restore it"):
        ledger.sync(remote(), fetch=False)
    assert ledger.present().keys() == {"a.md"}


def test_last_output_of_a_program_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may print and end between two looks at it."""
    monkeypatch.setattr(child_program, "_LOOK_SECONDS", 0.001)
    for number in range(40):
        with running(
            ["sh", "-c", f"sleep 0.00{number % 10}; echo {number}"], {}, tmp_path, ProgramLimits(), print
        ) as child:
            assert [line.data for line in child.lines(100) if line] == [b"%d" % number]


def test_names_that_cannot_be_decrypted_delete_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: MemoryLedger
) -> None:
    secret, other = (
        subprocess.run([RCLONE, "obscure", words], capture_output=True, text=True, check=True).stdout.strip()
        for words in ("a first password", "a second password")
    )
    vault = {"type": "crypt", "remote": str(tmp_path / "base"), "password": secret}
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "weir.md").write_text("# Weir")
    configuration = configure(monkeypatch, tmp_path / "person", vault=vault)
    command = [RCLONE, "--config", str(configuration), "copy", str(tmp_path / "plain"), "vault:"]
    subprocess.run(command, check=True)
    assert ledger.sync(remote("vault:")).new == {"weir.md"}
    configure(monkeypatch, tmp_path / "person", vault={**vault, "password": other})
    with pytest.raises(SourceUnavailable, match="names that cannot be decrypted; correct its password"):
        ledger.sync(remote("vault:"))
    assert set(ledger.present()) == {"weir.md"}
