# SPDX-License-Identifier: Apache-2.0
"""Add the process that measures a session, so that no other process continues it between two runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("writer", sa.String))
