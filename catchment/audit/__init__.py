"""The audit: proof that nobody changed the history of the ledger, by signed checkpoints and bundles that anybody can verify."""
