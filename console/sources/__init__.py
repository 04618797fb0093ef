"""Commands about sources: add, consent, log in, sync, plan."""
