# SPDX-License-Identifier: Apache-2.0
"""Finding the commit of a kernel that made a difference."""
