# SPDX-License-Identifier: Apache-2.0
"""Alembic runs this with the connection from `results.store.database`."""

from __future__ import annotations

from alembic import context

from ktrial.results.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
