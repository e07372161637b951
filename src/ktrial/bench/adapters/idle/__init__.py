# SPDX-License-Identifier: Apache-2.0
"""Adapter for the machine at rest."""
