"""Politeness: how fast, how many at once and when a host may be asked, and what it said about that.

A connector says its `HostLimits`, and does each request within `with self.pace.transfer() as transfer:`. The arithmetic is in
`bucket`, `adaptive`, `breaker` and `windows`, without clock or storage; `metered` puts it to work over a ledger, which is not
imported here: it is whatever meets `metered.Meter`.
"""

from __future__ import annotations

from catchment.pacing.limits import HostLimits, RateProfile, RateReport, read_headers
from catchment.pacing.pace import Pace, Transfer

__all__ = ["HostLimits", "Pace", "RateProfile", "RateReport", "Transfer", "read_headers"]
