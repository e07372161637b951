# SPDX-License-Identifier: Apache-2.0
"""Benchmark of a program's frames, which MangoHud logs."""
