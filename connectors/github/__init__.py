"""GitHub repositories: files, wikis, issues, pull requests, comments and releases as items.

`settings` describes a source, `names` defines locators, `connector` chains the listings of all repositories. `git`
reads files with the git program; `api` reads everything else over HTTP.
"""

from __future__ import annotations

from connectors.github.connector import GitHub

__all__ = ["GitHub"]
