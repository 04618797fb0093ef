"""Watches the folders of the sources that ask for it, and has a source synced soon after a change.

The watcher is a thread of the worker process. It only requests a sync, by an event that an automation of the Prefect server
answers. The sync itself finds what changed, so a lost event costs time and never a file.
"""
