"""`catchment model`, and how `status` shows the embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catchment.ledger import Ledger
from catchment.runtime.home import Home
from catchment.search.meaning import meaning_status
from catchment.search.meaning.choice import load
from catchment.search.meaning.fill import fill
from catchment.search.meaning.models import Refusal
from tests.console.standin import serving

if TYPE_CHECKING:
    from tests.console.conftest import Cli

_REASON = "search by meaning: the model's server does not answer; start it"


def _line(cli: Cli) -> str:
    (line,) = [line for line in cli("status").out.splitlines() if line.startswith("Search by meaning")]
    return line


def test_status_shows_how_many_passages_are_embedded(cli: Cli, filled: Path) -> None:
    shown = cli("status", "--json").json["meaning"]
    total = shown["total"]
    assert shown == {"setting": "use", "done": 0, "refused": 0, "total": total, "reason": ""}
    assert _line(cli) == f"Search by meaning: 0 of {total} passages"
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        fill(ledger, load("use"))
    assert cli("status", "--json").json["meaning"]["done"] == total
    assert _line(cli) == f"Search by meaning: {total} passages"


def test_status_shows_why_there_is_no_model(cli: Cli, filled: Path) -> None:
    meaning_status.record(Home(filled).make(), _REASON)
    assert _line(cli) == "Search by meaning: the model's server does not answer; start it"
    assert cli("model", "--json").json["reason"] == _REASON
    assert cli("model", "off").code == 0
    assert _line(cli) == "Search by meaning: off; switch it on with `catchment model use`"
    assert cli("model", "use").code == 0
    assert _line(cli).endswith(" passages")


@pytest.mark.parametrize("command", ["health", "doctor"])
def test_health_and_doctor_tell_why_there_is_no_model(cli: Cli, filled: Path, command: str) -> None:
    def findings() -> list[dict[str, str]]:
        return [finding for finding in cli(command, "--json").json["findings"] if finding["probe"] == "embeddings"]

    assert [finding["verdict"] for finding in findings()] == ["ok"]
    meaning_status.record(Home(filled).make(), _REASON)
    (finding,) = findings()
    total = cli("status", "--json").json["meaning"]["total"]
    problem = f"0 of {total} passages embedded; search by meaning: the model's server does not answer"
    assert (finding["verdict"], finding["message"], finding["remedy"]) == ("warn", problem, "start it")
    cli("model", "off")
    assert [finding["verdict"] for finding in findings()] == ["ok"]


def test_status_counts_the_passages_that_the_model_refused(cli: Cli, filled: Path) -> None:
    class Refusing:
        name, setting, dimensions = "refusing", "use", 4

        def passages(self, texts: Sequence[str]) -> list[bytes | Refusal | None]:
            return [Refusal("no"), *[b"four"] * (len(texts) - 1)]

        def query(self, _text: str) -> Sequence[float]:
            raise NotImplementedError

    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        total = fill(ledger, Refusing()).total
    assert _line(cli) == f"Search by meaning: {total} passages, 1 refused by the model"


def test_changed_model_is_stored_and_its_run_requested(cli: Cli, filled: Path) -> None:
    with serving(filled) as server:
        server.answers["/deployments/name/embed/embed"] = {"id": "7", "paused": False}
        server.answers["/deployments/7/create_flow_run"] = {"id": "1"}
        assert cli("model", "off").out.splitlines()[0].split() == ["model", "off"]
        assert server.asked == [], "nothing has to be embedded"
        assert cli("model", "use").code == 0
        assert [path for _, path, _ in server.asked] == list(server.answers)[-2:]
        server.answers["/deployments/name/embed/embed"] = {"id": "7", "paused": True}
        assert "`embed` is paused" in cli("model", "use").err


@pytest.mark.parametrize(
    ("setting", "code", "problem"),
    [
        ("openai:small@https://api.example.org/v1", 2, "the address is not on this machine"),
        ("bert", 2, "unknown setting 'bert'"),
        ("ollama:small@http://127.0.0.1:9", 10, "does not answer"),
    ],
)
def test_unusable_model_is_refused_and_not_stored(
    cli: Cli, filled: Path, setting: str, code: int, problem: str
) -> None:
    refused = cli("model", setting)
    assert (refused.code, len(refused.err.splitlines()), problem in refused.err) == (code, 1, True), refused
    assert cli("model", "--json").json["setting"] == "use"


def test_home_without_a_library_has_no_model_yet(cli: Cli, state: Path) -> None:
    assert cli("model", "--json").json is None
    assert "no library yet" in cli("model").err
