"""Watches the folders of the sources that ask for it, and has a source synced soon after a change.

`python -m deployments.watch` is a process of its own. It only ever *asks* for a sync, by an event that an automation of
the Prefect server answers; what changed is found by the sync itself, so that a lost event costs time and never a file.
"""
