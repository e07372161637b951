# SPDX-License-Identifier: Apache-2.0
"""Add trials of fleets with their logs, and which coordinator has each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "fleets",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("fleet", sa.String, nullable=False, unique=True),
        sa.Column("started_unix_ms", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.String),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("held_until_unix_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "fleet_events",
        sa.Column("fleet_key", _KEY, sa.ForeignKey("fleets.key", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("document", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
