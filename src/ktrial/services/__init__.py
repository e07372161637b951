# SPDX-License-Identifier: Apache-2.0
"""Use cases: the order of steps and nothing else."""
