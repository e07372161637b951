# SPDX-License-Identifier: Apache-2.0
"""The protocol: what a trial will do, decided before its first run."""
