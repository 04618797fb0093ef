"""The GitHub API over HTTP: the client, paged listings, threads, releases and device login."""
