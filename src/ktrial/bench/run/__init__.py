# SPDX-License-Identifier: Apache-2.0
"""How ktrial makes one run, on this machine or in a guest."""
