# SPDX-License-Identifier: Apache-2.0
"""Making one run, on this machine or in a guest."""
