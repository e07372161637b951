# SPDX-License-Identifier: Apache-2.0
"""Add trials with their logs, and noise profiles."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "trials",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("trial", sa.String, nullable=False, unique=True),
        sa.Column("session", sa.String, nullable=False),
        sa.Column("protocol_sha256", sa.String(64), nullable=False),
        sa.Column("started_unix_ms", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_table(
        "trial_events",
        sa.Column("trial_key", _KEY, sa.ForeignKey("trials.key", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("document", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "noise_profiles",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("suite", sa.String, nullable=False),
        sa.Column("machine", sa.String, nullable=False),
        sa.Column("made_unix_ms", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
