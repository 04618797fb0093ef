"""Sources, syncs, consents and items, and the rules by which a listing updates items."""
