"""A future revision: adds a column and a table with data, and rebuilds a table and an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "0014"


def upgrade() -> None:
    """Execute at least nine statements; any of them can be the last before a kill."""
    op.add_column("items", sa.Column("weight", sa.Integer(), nullable=False, server_default="1"))
    op.execute("UPDATE items SET weight = 2 WHERE state = 'present'")
    op.create_table(
        "weights",
        sa.Column("item_id", sa.BigInteger(), sa.ForeignKey("items.id"), primary_key=True, autoincrement=False),
        sa.Column("weight", sa.Integer(), nullable=False),
    )
    op.execute("INSERT INTO weights SELECT id, weight FROM items")
    with op.batch_alter_table(
        "turns", recreate="always" if op.get_bind().dialect.name == "sqlite" else "never"
    ) as turns:
        turns.add_column(sa.Column("weight", sa.Integer(), nullable=False, server_default="1"))
    op.drop_index("syncs_by_source", "syncs")
    op.create_index("syncs_by_source", "syncs", ["source_id", "id", "began_at"])
