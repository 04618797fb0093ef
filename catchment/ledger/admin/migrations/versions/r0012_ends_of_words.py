"""End words where the script changes and around versions: build the indexes anew from the texts of the library."""

from __future__ import annotations

from alembic import op

from catchment.ledger.admin import index_check
from catchment.ledger.db.database import Writing
from catchment.ledger.db.folding import postgres_function

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Fold all texts again."""
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(postgres_function())
    index_check.rebuild(Writing(connection, 0))
