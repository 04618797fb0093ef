"""The stages of a sync: discover, claim, process, finish. Also plan, prove and revoke."""
