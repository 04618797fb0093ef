"""The runner: one process that executes all flow runs on one event loop, for the worker that started it."""
