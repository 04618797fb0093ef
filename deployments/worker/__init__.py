"""The worker: a Prefect worker type that admits flow runs, hands them to the runner, and sets the states it leaves open."""
