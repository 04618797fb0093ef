"""The actions of an operator, one function each, for the command line, the page and assistants.

An action takes the actor and a reason, and adds its line to the history. A refusal raises a UserError. An action takes effect
completely or not at all; a few can be repeated to finish, as their docstrings state. A `Desk` gives it the sources file, the
connectors and Prefect's API:

    add, change, move, pause, resume, remove a source  actions.sources
    test a source, and read it again if it can be      actions.sources
    allow hosts of a web source                        actions.sources
    enqueue web addresses, keep_file                   actions.inbox
    apply_deletions, drop_deletions: held deletions    actions.sources
    start, cancel or undo a sync                       actions.syncs
    give or revoke consent                             actions.consents
    add_token, revoke_token of a pushing program       actions.pushed
    change (also pause) or clear limits; reset_breaker  actions.limits
    retry, discard, note, purge quarantined items      actions.quarantine
    cancel or prioritize a job                         actions.jobs
    acknowledge an incident                            actions.incidents
    make or restore a backup                           actions.backups
    add, pause, resume, rebuild, adopt, remove a sink  actions.sinks
    choose the model of search; adopt, move the ledger  actions.library
    erase steps of the history, replace its key        actions.library
    join, leave a shared library; take out a host      actions.hosts

`actions.previews` returns the effect of adding or syncing a source, and a proof, without a change; `sinks.check` compares a
sink with the library.

The page and its interface lack some, which are commands only:

    backups.restore        no process may use the ledger meanwhile
    hosts.join             no process may use the ledger meanwhile
    hosts.leave            no process may use the ledger meanwhile
    inbox.keep_file        the page takes addresses; other programs push their files
    library.adopt          the page of this home cannot write the ledger of another one
    library.move           no process may use the ledger meanwhile
    library.erase_history  the holder of a session or a token must not be able to weaken the proof of past actions
    pushed.add_token       the holder of a session or a token must not be able to make another token
    pushed.revoke_token    a program must not be able to shut out another one
    library.replace_key    the holder of a session or a token must not be able to weaken the proof of past actions
"""
