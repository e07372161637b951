# SPDX-License-Identifier: Apache-2.0
"""Results in a database: SQLite by default, PostgreSQL by URL."""
