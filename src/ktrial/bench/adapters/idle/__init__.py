# SPDX-License-Identifier: Apache-2.0
"""The machine at rest."""
