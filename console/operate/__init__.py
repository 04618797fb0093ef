"""Commands that steer how Catchment works."""
