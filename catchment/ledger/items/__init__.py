"""Items: sources, syncs, consents, and the rules by which a listing changes items."""
