"""The sources file, its schedules, and deploying its entries."""
