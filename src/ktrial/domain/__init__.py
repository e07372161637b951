# SPDX-License-Identifier: Apache-2.0
"""Pure values and rules: no file, clock, process or global randomness."""
