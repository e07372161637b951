# SPDX-License-Identifier: Apache-2.0
"""Alembic's migrations of the schema."""
