# SPDX-License-Identifier: Apache-2.0
"""A list of tweaks, reviewed line by line for one machine."""
