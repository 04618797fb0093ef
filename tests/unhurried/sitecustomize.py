"""Found by every Python that has this folder in PYTHONPATH."""

from __future__ import annotations

import unhurried  # noqa: F401
