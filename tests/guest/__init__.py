# SPDX-License-Identifier: Apache-2.0
"""Real kernels in QEMU."""
