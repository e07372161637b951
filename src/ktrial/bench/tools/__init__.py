# SPDX-License-Identifier: Apache-2.0
"""Downloading and building the programs that benchmarks use."""
