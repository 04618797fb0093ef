"""A home on a small, real disk that only the commands of one user can see."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.person import Person
from tests.waiting import PATIENCE


@contextmanager
def small_disk(home: Path, *, folder: str = "", megabytes: int = 20) -> Iterator[Person]:
    """A user with the home, or one folder of it, on a small disk. Needs root for a private mount namespace."""
    disk = home / folder
    disk.mkdir(mode=0o700, parents=True)
    options = f"size={megabytes}m,mode=0700"
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o {options} none "$0" && echo there && cat', disk],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert holder.stdin
    assert holder.stdout
    try:
        if holder.stdout.readline() != b"there\n":
            assert not os.environ.get("CATCHMENT_CI"), "the tests have to run as root"
            pytest.skip("a small disk can be mounted by root only, in a namespace of its own")
        yield Person(home, before=("nsenter", "--target", str(holder.pid), "--mount", "--"))
    finally:
        holder.stdin.close()
        holder.wait(PATIENCE)
        holder.stdout.close()


def within(person: Person, *words: str, check: bool = True) -> None:
    """Run another program in the user's mount namespace."""
    subprocess.run([*person.before, *words], check=check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
