"""Commands that start and stop Catchment and show whether it runs."""
