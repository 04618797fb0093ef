"""Real repositories, created with git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PERSON = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
}


class Repository:
    """A repository with a work tree at this path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def made(cls, path: Path, *options: str) -> Repository:
        """Create a repository with the branch `main`."""
        path.mkdir(parents=True, exist_ok=True)
        repository = cls(path)
        repository.git("init", "--quiet", "--initial-branch=main", *options)
        return repository

    def git(self, *arguments: str, given: str | None = None) -> str:
        """Run git; return its output."""
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *arguments],
            cwd=self.path,
            env={**os.environ, **_PERSON},
            input=given,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def write(self, **files: str) -> None:
        """Write Markdown files; `__` in a name stands for a slash."""
        for name, text in files.items():
            self.put(f"{name.replace('__', '/')}.md", text)

    def put(self, name: str, content: str | bytes) -> None:
        """Write one file."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, *options: str) -> str:
        """Commit everything in the work tree; return the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "a change", *options)
        return self.git("rev-parse", "HEAD")
