# SPDX-License-Identifier: Apache-2.0
"""Trials on live work: the sources of their outcomes, the plan of their periods, and their guards."""
