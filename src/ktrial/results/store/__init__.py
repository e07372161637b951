# SPDX-License-Identifier: Apache-2.0
"""The store of results: an SQLite database by default, PostgreSQL if a URL says so."""
