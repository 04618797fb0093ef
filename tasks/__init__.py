"""Units of retry and caching: each task is a policy and one call into the engine."""
