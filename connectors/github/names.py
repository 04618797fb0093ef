"""Locators of repositories and their items.

owner/repo:docs/a.md          a file of the default branch, in the container `owner/repo:docs`
owner/repo@dev:docs/a.md      a file of another branch
owner/repo.wiki:Home.md       a page of the wiki
owner/repo#12                 an issue or pull request
repo:docs/a.md                a file of a local clone in the folder `repo`; `repo@dev:docs/a.md` on a branch
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")
"""`owner/repo`, as GitHub permits."""
_FILE = re.compile(r"([^:#@]*)(?:@[^:]+)?:")
_WIKI = ".wiki"
_NO_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|/[/.-]|\.\.|@\{|\.(?:lock)?/|^/@/$")


class Repository(NamedTuple):
    """A repository as reported by its host.

    `id` survives renames. `pushed` is the time of the last push, if the host reports it; without a new push, git is not
    run.
    """

    name: str
    id: str = ""
    default_branch: str | None = None
    pushed: datetime | None = None
    has_wiki: bool = False


def clone_name(folder: str) -> str:
    """Return the name of a clone in a folder with this name."""
    return re.sub(r"[:#@/]", "_", folder) or "_"


def wiki_of(repository: str) -> str:
    """Return the name of a repository's wiki, which is a separate repository."""
    return f"{repository}{_WIKI}"


def is_wiki(name: str) -> bool:
    """Return whether a repository is a wiki."""
    return name.endswith(_WIKI)


def is_branch(name: str) -> bool:
    """Return whether this is a valid branch name (git check-ref-format)."""
    return not _NO_BRANCH.search(f"/{name}/")


def is_file(locator: str) -> bool:
    """Return whether an item or container consists of files; if not, its source is the API (issues, releases)."""
    return _FILE.match(locator) is not None


def repository_of(name: str) -> str:
    """Return the repository of a locator or container: `owner/repo`."""
    if match := _FILE.match(name):
        return match[1].removesuffix(_WIKI)
    return "/".join(re.split("[/#]", name, maxsplit=2)[:2])
