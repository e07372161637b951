# SPDX-License-Identifier: Apache-2.0
"""Building kernels: sources, patches, tools, make, packages and build records."""
