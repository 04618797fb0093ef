"""The operator: the command line. Everything here calls the engine and the deployments; nothing imports it."""
