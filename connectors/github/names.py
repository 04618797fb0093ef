"""How repositories and what is in them are called.

owner/repo:docs/a.md          a file of the default branch, in the container `owner/repo:docs`
owner/repo@dev:docs/a.md      a file of another branch
owner/repo.wiki:Home.md       a page of the wiki
owner/repo#12                 whatever has a number
docs/a.md                     a file of a clone on this machine, in the container `docs`; `@dev:docs/a.md` of a branch
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")
"""`owner/repo`, as GitHub lets them be called."""
_FILE = re.compile(r"([^:#@]*)(?:@[^:]+)?:")
_WIKI = ".wiki"
_NO_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|/[/.-]|\.\.|@\{|\.(?:lock)?/|^/@/$")


class Repository(NamedTuple):
    """A repository, as its host tells of it.

    `id` stays when it is renamed. `pushed` is when somebody pushed last, where the host told: a look at it saves asking git.
    """

    name: str
    id: str = ""
    default_branch: str | None = None
    pushed: datetime | None = None
    has_wiki: bool = False


def clone_name(folder: str) -> str:
    """What a clone in a folder of this name is called."""
    return re.sub(r"[:#@/]", "_", folder) or "_"


def wiki_of(repository: str) -> str:
    """What the wiki of a repository is called, which is a repository of its own."""
    return f"{repository}{_WIKI}"


def is_wiki(name: str) -> bool:
    """Whether a repository is a wiki."""
    return name.endswith(_WIKI)


def is_branch(name: str) -> bool:
    """Whether a branch can be called so (git check-ref-format)."""
    return not _NO_BRANCH.search(f"/{name}/")


def is_file(locator: str) -> bool:
    """Whether an item or a container is one of files; else it is of the host's own: issues, releases."""
    return _FILE.match(locator) is not None


def repository_of(name: str) -> str:
    """The repository that a locator or a container belongs to: `owner/repo`."""
    if found := _FILE.match(name):
        return found[1].removesuffix(_WIKI)
    return "/".join(re.split("[/#]", name, maxsplit=2)[:2])
