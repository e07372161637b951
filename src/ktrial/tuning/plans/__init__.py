# SPDX-License-Identifier: Apache-2.0
"""Plans, transactions, and waiting for the agent's lock."""
