# SPDX-License-Identifier: Apache-2.0
"""Statistics: arrays in, values out; one file for each question."""
