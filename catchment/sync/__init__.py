"""The life of one sync: discover, claim, process, finish; and plan, prove and revoke beside it."""
