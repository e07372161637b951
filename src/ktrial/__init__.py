# SPDX-License-Identifier: Apache-2.0
"""ktrial: put kernel tweaks on trial."""

__version__ = "0.1.0"
