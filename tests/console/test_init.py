"""`catchment` alone, and the questions of `catchment init` at a terminal. tests/acceptance answers all of them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catchment.search.results import Hit
from console.start_stop import init
from tests.console.standin import answering
from tests.terminal import Terminal

if TYPE_CHECKING:
    from tests.console.conftest import Cli


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user with one vault among the documents."""
    folder = tmp_path / "me"
    (folder / "Documents" / "Notes" / ".obsidian").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


def test_overview_names_the_next_command_of_each_state(cli: Cli, state: Path, filled: Path) -> None:
    file = state / "sources.yaml"
    known = file.read_text()
    assert "sources  notes\nstate    stopped\n" in cli().out
    assert "Next:          catchment up --detach " in cli().out
    with answering(state):
        assert "Next:          catchment web " in cli().out
    file.write_text("deployments: [")
    assert "Next:          catchment config validate " in cli().out
    file.unlink()
    assert "Next:          catchment init " in cli().out
    file.write_text(known)
    assert cli().code == 0


def test_overview_of_a_new_user_makes_no_home_and_loads_nothing_heavy(process: Cli, state: Path) -> None:
    script = (
        "import sys\n"
        "from console.main import main\n"
        "main([])\n"
        "print(sorted({'prefect', 'pydantic', 'sqlalchemy', 'catchment.ledger'} & set(sys.modules)), file=sys.stderr)\n"
    )
    said = process(script=script)
    assert "Next:          catchment init " in said.out
    assert (said.err, state.exists()) == ("[]\n", False)


def test_init_without_a_terminal_names_the_commands(cli: Cli, state: Path) -> None:
    said = cli("init")
    assert (said.code, said.err.count("\n"), state.exists()) == (2, 1, False)
    assert "catchment add" in said.err
    assert "catchment up --detach" in said.err


QUESTIONS = ("or its number [1]: ", "[Y/n]: ", "[Y/n]: ")


@pytest.mark.parametrize("question", range(len(QUESTIONS)))
def test_ctrl_c_at_a_question_leaves_nothing(state: Path, user: Path, question: int) -> None:
    terminal = Terminal([sys.executable, "-m", "console", "init"], os.environ)
    for prompt in QUESTIONS[:question]:
        terminal.reads(prompt)
        terminal.types("\n")
    terminal.reads(QUESTIONS[question])
    assert terminal.interrupts() == 130
    assert "Traceback" not in terminal.shown
    assert not state.exists()


def test_init_asks_again_until_the_folder_can_be_read(state: Path, user: Path, cli: Cli) -> None:
    (user / "of Jan" / "new").mkdir(parents=True)
    terminal = Terminal([sys.executable, "-m", "console", "init"], os.environ)
    terminal.reads("1  ~/Documents/Notes")
    terminal.types("~/nothing\n")
    terminal.reads("~/nothing: not a folder; type its path")
    terminal.types("https://notes.example.org/\n")
    terminal.reads("not a folder; to add mail or web pages, press Ctrl-C and see: catchment add")
    terminal.types("~\n")
    terminal.reads("~: contains your home folder")
    terminal.types(" \n")
    terminal.reads(": not a folder; type its path")
    # `new` is an address of the page, so the source gets another name.
    terminal.types(f"{user}/of\tne\t")
    terminal.reads("of Jan/new/")
    terminal.types("\n")
    terminal.reads("Watch it")
    terminal.types("n\n")
    terminal.reads("Start Catchment and read notes now?")
    terminal.types("n\n")
    terminal.reads("Continue with: catchment init")
    assert terminal.ends() == 0
    source = cli("sources", "show", "notes", "--json").json
    assert (source["line"]["standing"]["kind"], source["schedule"]) == ("local_files", "every 1 h")


def test_tab_completes_folders_only(user: Path) -> None:
    for name in ("Documents/Notes/Bees", "Documents/Notes/Birds", "Documents/.cache"):
        (user / name).mkdir(parents=True)
    (user / "Documents" / "Notes.txt").touch()
    offered = [init._complete_folder("~/Documents/Notes/B", number) for number in range(3)]
    assert offered == ["~/Documents/Notes/Bees/", "~/Documents/Notes/Birds/", None]
    assert init._complete_folder("~/Documents/", 0) == "~/Documents/Notes/"
    assert init._complete_folder("~/Documents/", 1) is None
    assert init._complete_folder("~/nothing/", 0) is None


def test_first_question_is_about_a_note_and_no_template(user: Path) -> None:
    def subject(item: str, title: str, media_type: str = "text/markdown") -> str:
        places = (("notes", item),)
        return init._subject(Hit(1, title, "notes", item, "", 1.0, places, None, 1, media_type, None, None))

    assert subject("Bees/Propolis tincture.md", "Propolis tincture") == "Propolis tincture"
    assert subject("Templates/Meeting.md", "Meeting with somebody") == ""
    assert subject("2026-03-21.md", "2026-03-21") == subject("scan of it.png", "scan of it", "image/png") == ""


def test_init_of_a_home_in_use_shows_the_next_command(filled: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.render.interactive", lambda: True)
    said = cli("init")
    assert said.code == 0
    assert said.out.startswith("Catchment is set up here already.")
    assert "Next:          catchment up --detach " in said.out


def test_vaults_that_obsidian_lists_come_first_and_once(user: Path) -> None:
    for name in ("Old", "Recent"):
        (user / "elsewhere" / name / ".obsidian").mkdir(parents=True)
    listed = {"a": (user / "elsewhere/Old", 1), "b": (user / "elsewhere/Recent", 3), "c": (user / "Documents/Notes", 2)}
    vaults = {key: {"path": str(path), "ts": opened} for key, (path, opened) in listed.items()}
    file = user / ".config/obsidian/obsidian.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"vaults": {**vaults, "d": {"path": str(user / "gone"), "ts": 9}}}))
    names = ["Recent", "Notes", "Old"]
    assert [vault.name for vault in init._vaults()] == names
    file.write_text("{")
    assert [vault.name for vault in init._vaults()] == ["Notes"]
