"""GitHub: what is in repositories, and what is said about it, as items.

`settings` is what a person says, `names` how a repository and its items are called, `connector` puts the listings of all
repositories one after another. Content: `git` runs git, `mirror` keeps a copy of a repository, `code` tells what is different.
"""

from __future__ import annotations

from connectors.github.connector import GitHub

__all__ = ["GitHub"]
