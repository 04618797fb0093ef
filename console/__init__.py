"""The command line. It calls the engine and the deployments; no other package imports it."""
