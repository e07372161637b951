# SPDX-License-Identifier: Apache-2.0
"""Trials whose arms are kernels in guests."""
