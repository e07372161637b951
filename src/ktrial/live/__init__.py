# SPDX-License-Identifier: Apache-2.0
"""Outcomes of live work: where they come from, how a switchback is planned, and the guards that watch it."""
