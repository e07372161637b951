# SPDX-License-Identifier: Apache-2.0
"""Download and build the programs that benchmarks use."""
