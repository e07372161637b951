# SPDX-License-Identifier: Apache-2.0
"""Migrations, one for each version of the schema."""
