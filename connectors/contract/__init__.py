"""The contract's tests for any connector, as a plug-in of pytest: `from connectors.contract.suite import ConnectorContract`.

Each pytest of an environment with Catchment loads this module, so it does nothing but announce the others.
"""

import pytest

pytest.register_assert_rewrite("connectors.contract.suite", "connectors.contract.memory_ledger")
