"""Find words with markup inside, such as Ka**tze**nklo: build the indexes of word parts anew from the texts of the library."""

from __future__ import annotations

from alembic import op

from catchment.ledger.admin import index_check
from catchment.ledger.db.database import Writing

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Read the parts of all texts again."""
    index_check.rebuild_parts(Writing(op.get_bind(), 0))
