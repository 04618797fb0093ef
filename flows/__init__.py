"""Prefect flows: the order of the steps of a sync, and the daily clean-up. The steps are in `tasks` and the engine."""
