"""Rate limiting: how fast, how concurrently and when a host may be requested, and the limits that it reports.

A connector declares its `HostLimits` and wraps each request in `with self.pace.transfer() as transfer:`. `bucket`, `adaptive`,
`breaker` and `windows` are pure functions of state and time. `metered` combines them over a `Meter`, the protocol that the
ledger implements; this package does not import the ledger.
"""

from __future__ import annotations

from catchment.pacing.limits import HostLimits, RateProfile, RateReport, read_headers
from catchment.pacing.pace import Pace, Transfer

__all__ = ["HostLimits", "Pace", "RateProfile", "RateReport", "Transfer", "read_headers"]
