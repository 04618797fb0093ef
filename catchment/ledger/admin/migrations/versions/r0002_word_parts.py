"""The parts of identifiers: revision 0007 indexes them, with all other texts."""

from __future__ import annotations

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Change nothing."""
