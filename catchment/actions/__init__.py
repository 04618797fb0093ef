"""The actions of an operator, one function each, for the command line, the page and assistants.

An action takes the actor and a reason, and adds its line to the history. A refusal raises a UserError. It is done completely
or not at all; a few can be repeated to finish, as their functions say. The sources file, the connectors and Prefect's API are
handed in as a `Desk`. Actions that only change the ledger are its methods:

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
