"""Commands for trouble: health, doctor, quarantine, jobs, deletions, undo, prove."""
