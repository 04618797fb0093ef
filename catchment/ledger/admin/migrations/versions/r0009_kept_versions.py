"""Add the number of days for which the versions of a source's documents are kept."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add what this revision has and the one before had not."""
    _keep_days()


def _keep_days() -> None:
    statement = "ALTER TABLE sources ADD COLUMN keep_days INTEGER DEFAULT '30' NOT NULL"
    op.get_bind().exec_driver_sql(statement)
