"""Health checks and their page in the UI, and the diagnosis behind `catchment check`."""
