"""What an operator does: one function for each action, for the command line, the page and assistants.

Each takes the actor and a reason, raises a UserError if it is refused, does everything or nothing (or, where it says so, can be
repeated to finish), and adds its line to the history. A `Desk` is handed in for what lies outside the library. Actions
that only change the ledger are its methods:

    add, change, pause, resume, remove a source        actions.sources
    start or cancel a sync                             actions.syncs
    give or revoke consent                             actions.consents
    set, clear, pause, resume limits; reset a breaker  actions.limits
    retry quarantined items                            actions.quarantine
    discard, annotate or purge quarantined items       Ledger.quarantine.discard, note, purge
    cancel a job                                       Ledger.queue.cancel
    undo a sync                                        Ledger.undo.undo
    confirm or reject held deletions                   Ledger.intake.apply_hold, drop_hold
"""
