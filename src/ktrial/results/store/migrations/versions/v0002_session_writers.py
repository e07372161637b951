# SPDX-License-Identifier: Apache-2.0
"""Who measures a session: nobody else goes on with it between two of its runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; of what is there already nobody is known."""
    op.add_column("sessions", sa.Column("writer", sa.String))
