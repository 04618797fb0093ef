"""Watch the folders, mailboxes and clones of the sources and request a sync soon after a change.

The watcher is a thread of the worker process. It requests syncs only: it emits an event, which an automation of the Prefect
server answers with a run. The sync itself finds the changes, so a lost event costs time and never a file.
"""
