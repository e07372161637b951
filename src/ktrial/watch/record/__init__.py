# SPDX-License-Identifier: Apache-2.0
"""Recording of a machine or a program with the agent."""
