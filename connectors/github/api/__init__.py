"""The GitHub API over HTTP: client, paged listings, threads, releases and device login."""
