# SPDX-License-Identifier: Apache-2.0
"""The ledger: what was tried on this machine, with which verdict, and whether it still holds."""
