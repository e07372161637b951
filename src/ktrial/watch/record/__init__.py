# SPDX-License-Identifier: Apache-2.0
"""Records a machine or a program with the agent."""
