# SPDX-License-Identifier: Apache-2.0
"""The ledger: everything that was tried on this machine, its verdicts, and whether they still hold."""
