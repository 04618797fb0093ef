"""Found by every Python that has this folder in PYTHONPATH. Each of these modules acts if its variable is set."""

from __future__ import annotations

import counted_requests  # noqa: F401
import frequent_checks  # noqa: F401
import recorded_steps  # noqa: F401
import unhurried  # noqa: F401
