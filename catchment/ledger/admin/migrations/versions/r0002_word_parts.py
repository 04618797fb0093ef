"""Index the parts of identifiers, from the texts of the library."""

from __future__ import annotations

from alembic import op

from catchment.ledger.admin import index_check
from catchment.ledger.db.database import Writing

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Rebuild the index of word parts. Its tables stay as they are."""
    index_check.index_parts(Writing(op.get_bind(), 0))
