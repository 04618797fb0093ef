"""The hosted project: its forms, hooks and checks name existing files and commands."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance import document
from tests.scale.stack import PACKAGES

ROOT = Path(__file__).parent.parent


def _read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_hosted_checks_run_what_a_developer_runs_with_pinned_actions() -> None:
    flow = _read(".github/workflows/checks.yaml")
    (job,) = flow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step][-1] == ".ci/run"
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w-]+/[\w-]+@v\d+(\.\d+)*", name)] == []
    assert flow["permissions"] == {"contents": "read"}
    # YAML 1.1 reads the key `on` as true.
    assert "pull_request" in flow[True]


def test_hooks_use_the_environment_of_the_clone() -> None:
    (repository,) = _read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    programs = {hook["entry"].split()[0] for hook in repository["hooks"]}
    assert programs == {".venv/bin/ruff", ".venv/bin/mypy"}


def test_forms_for_issues_have_what_a_host_requires() -> None:
    for file in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yaml"):
        form = _read(str(file.relative_to(ROOT)))
        assert {"name", "description", "body"} <= form.keys()
        fields = [part for part in form["body"] if part["type"] != "markdown"]
        assert all(part["attributes"]["label"] for part in fields)
        assert len({part["id"] for part in fields}) == len(fields)


def test_release_commands_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake ([a-z-]+)", text))
    assert named
    assert named - targets == set()
    assert document.headings(ROOT / "docs" / "releasing.md")[0] == "Before"


def test_make_names_the_command_that_installs_missing_programs(tmp_path: Path) -> None:
    needs = "$(call needs,sh=dash nosuchprogram=nosuch-package other-program=other)"
    file = tmp_path / "Makefile"
    file.write_text(f"include {ROOT}/Makefile\ntry:\n\t{needs}\nfine:\n\t$(call needs,sh=dash)\n")
    # Another make, which runs these tests, would pass its job server.
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    command = ["make", "-s", "-f", str(file)]
    failed = subprocess.run([*command, "try"], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    said = failed.stderr.splitlines()[0]
    assert said == "make try: programs are missing; on Debian: apt install nosuch-package other"
    subprocess.run([*command, "fine"], cwd=ROOT, env=env, check=True)


def test_test_scale_checks_its_programs_before_the_environment_is_made() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\ntest-scale:")[2].partition("\n\n")[0].splitlines()
    assert "setup" not in recipe[0].partition("##")[0]
    assert recipe[1].strip() == f"$(call needs,{' '.join(f'{name}={package}' for name, package in PACKAGES.items())})"


def test_lines_of_templates_are_short_enough_to_compare() -> None:
    long = {
        f"{file.name}:{number}"
        for file in (ROOT / "web" / "templates").glob("*.html")
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 200
    }
    assert long == set()
