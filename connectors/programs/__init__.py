"""Sources that programs of others read: they print Singer or Airbyte messages, in any language."""

from __future__ import annotations

from connectors.programs.connector import Program

__all__ = ["Program"]
