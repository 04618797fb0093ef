"""What an operator does: one function for each action, for the command line, the page and assistants.

Each takes the actor and a reason, raises a UserError if it is refused, does everything or nothing (or, where it says so, can be
repeated to finish), and adds its line to the history. A `Desk` is handed in for what lies outside the library:

    add, change, pause, resume, remove a source        actions.sources
    apply_deletions, drop_deletions: held deletions    actions.sources
    start, cancel or undo a sync                       actions.syncs
    give or revoke consent                             actions.consents
    change (also pause) or clear limits; reset_breaker  actions.limits
    retry, discard, note, purge quarantined items      actions.quarantine
    cancel or prioritize a job                         actions.jobs
"""
