"""Run git so that no setting or content of a repository makes it execute, write or fetch anything."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from catchment.errors import Reason, SourceInvalid, SourceUnavailable
from connectors.child_end import KILLED_WITH_PARENT, end

ENVIRONMENT: Mapping[str, str] = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_COUNT": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "LC_ALL": "C",
}
"""Environment of every git command: no external configuration, network, prompts or optional writes."""

COMMAND = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")

SECONDS = 60.0
"""Default time limit of a query, and limit without output of a streaming command."""
_TIDY_SECONDS = 3_600.0

_COMMIT = re.compile(rb"\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b")
_CONFIG = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
_SHA256_CONFIG = "[extensions]\n\tobjectFormat = sha256\n"
_NO_GIT = "git: not installed; install it (apt install git) and try again"


class Stalled(SourceUnavailable):
    """Git exceeded its time limit and was killed: an unresponsive disk, or a named pipe in place of a file."""

    reason = Reason.TIMEOUT

    @classmethod
    def after(cls, seconds: float) -> Stalled:
        """Return the error for this time limit."""
        return cls(
            f"git: no response from the repository within {seconds:g} s; check that its disk responds and that .git "
            "contains no named pipe"
        )


def object_store(directory: Path, seconds: float = SECONDS) -> Path:
    """Return the object store of a repository, which linked work trees share. Raises as `resolve_commit` does."""
    return Path(
        os.fsdecode(
            _query(directory, seconds, "rev-parse", "--path-format=absolute", "--git-path", "objects").rstrip(b"\n")
        )
    )


def resolve_commit(directory: Path, name: str, seconds: float = SECONDS) -> str | None:
    """Resolve a name to a commit in the repository of this directory; return None if it does not exist.

    Raises SourceUnavailable if there is no readable repository, and Stalled after `seconds`.
    """
    match = _COMMIT.search(
        _query(directory, seconds, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    )
    return match[0].decode() if match else None


def share_history(directory: Path, old: str, new: str, seconds: float = SECONDS) -> bool:
    """Return whether two commits have a common ancestor in the stored history of this repository."""
    try:
        return run((*COMMAND, "merge-base", old, new), {"GIT_DIR": str(directory)}, seconds).returncode == 0
    except Stalled:
        return False


def create_empty(directory: Path, *, long_hashes: bool = False) -> None:
    """Create a repository without objects, hooks or templates. May be called again. Raises SourceUnavailable."""
    try:
        for folder in ("objects", "refs"):
            (directory / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in (("HEAD", "ref: refs/heads/none\n"), ("config", _CONFIG + _SHA256_CONFIG * long_hashes)):
            if not (directory / name).exists() or (directory / name).read_text() != text:
                (directory / name).write_text(text)
    except (OSError, ValueError) as error:
        raise SourceUnavailable("CATCHMENT_HOME: not writable; free some space, or grant write access") from error


def collect_garbage(directory: Path) -> None:
    """Merge the packs of a repository of ours and delete unreachable objects."""
    run((*COMMAND, "gc", "--prune=now", "--quiet"), {"GIT_DIR": str(directory)}, _TIDY_SECONDS)


def _query(directory: Path, seconds: float, *arguments: str) -> bytes:
    completed = run((*COMMAND, *arguments), {"GIT_DIR": str(directory)}, seconds)
    if completed.returncode and completed.stderr:
        raise SourceUnavailable("repository: not readable by git; examine it with `git fsck`, or clone it again")
    return completed.stdout


def run(
    command: Sequence[str], added: Mapping[str, str], seconds: float, input_data: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run git to its end. Raises Stalled after `seconds`."""
    process = start((*KILLED_WITH_PARENT, *command), added, own_group=True)
    try:
        output, errors = process.communicate(input_data, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Stalled.after(seconds) from None
    finally:
        end(process, own_group=True)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def start(command: Sequence[str], added: Mapping[str, str], *, own_group: bool = False) -> subprocess.Popen[bytes]:
    """Start git. Without its own process group it starts no children, and is killed with our group."""
    # Not git's variables: this process may run inside a hook.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        return subprocess.Popen(
            command,
            env={**inherited, **ENVIRONMENT, **added},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if own_group else subprocess.DEVNULL,
            start_new_session=own_group,
        )
    except FileNotFoundError:
        raise SourceInvalid(_NO_GIT) from None
