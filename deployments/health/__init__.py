"""Health checks, the health artifact, and the examination behind `catchment doctor`."""
