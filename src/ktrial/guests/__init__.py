# SPDX-License-Identifier: Apache-2.0
"""Virtual machines that boot a kernel for a measurement."""
