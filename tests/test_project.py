"""What a hosted project offers: forms, hooks and checks that name what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance import document

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
