"""The GitHub API over HTTP: client, paged listings, conversations, releases and device login."""
