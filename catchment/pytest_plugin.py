"""Announces the contract's tests, `connectors.contract.suite`, to pytest. Each pytest beside Catchment loads this module."""

import pytest

pytest.register_assert_rewrite("connectors.contract.suite", "connectors.contract.memory_ledger")
