# SPDX-License-Identifier: Apache-2.0
"""Create the first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _sessions_and_runs()
    _results()


def _sessions_and_runs() -> None:
    op.create_table(
        "sessions",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("session", sa.String, nullable=False),
        sa.Column("suite", sa.String, nullable=False),
        sa.Column("label", sa.String),
        sa.Column("origin", sa.String, nullable=False),
        sa.Column("plan", sa.String),
        sa.Column("kernel_release", sa.String),
        sa.Column("boot_id", sa.String),
        sa.Column("started_unix_ms", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.UniqueConstraint("session", name="uq_sessions_session"),
    )
    op.create_index("ix_sessions_plan", "sessions", ["plan"])
    op.create_table(
        "runs",
        sa.Column("session_key", _KEY, sa.ForeignKey("sessions.key", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("benchmark", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("warm_up", sa.Integer, nullable=False),
        sa.Column("started_unix_ms", sa.BigInteger, nullable=False),
        sa.Column("writer", sa.String),
        sa.Column("document", sa.Text),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_runs_state", "runs", ["state"])


def _results() -> None:
    op.create_table(
        "series",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("benchmark", sa.String, nullable=False),
        sa.Column("outcome", sa.String, nullable=False),
        sa.Column("unit", sa.String, nullable=False),
        sa.Column("direction", sa.String, nullable=False),
        sa.UniqueConstraint("benchmark", "outcome", "unit", "direction", name="uq_series_benchmark"),
    )
    op.create_table(
        "measurements",
        sa.Column("series_key", _KEY, sa.ForeignKey("series.key"), primary_key=True),
        sa.Column("session_key", _KEY, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("value", sa.Double, nullable=False),
        sa.ForeignKeyConstraint(["session_key", "number"], ["runs.session_key", "runs.number"], ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "blobs",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("packed", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "artefacts",
        sa.Column("session_key", _KEY, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("sha256", sa.String(64), sa.ForeignKey("blobs.sha256"), nullable=False),
        sa.ForeignKeyConstraint(["session_key", "number"], ["runs.session_key", "runs.number"], ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "states",
        sa.Column("session_key", _KEY, sa.ForeignKey("sessions.key", ondelete="CASCADE"), primary_key=True),
        sa.Column("place", sa.String, primary_key=True),
        sa.Column("sha256", sa.String(64), sa.ForeignKey("blobs.sha256"), nullable=False),
        sqlite_with_rowid=False,
    )
