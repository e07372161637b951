# SPDX-License-Identifier: Apache-2.0
"""Steps between versions of the schema, for Alembic."""
