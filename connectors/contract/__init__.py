"""The contract's tests for any connector: `from connectors.contract.suite import ConnectorContract`."""
