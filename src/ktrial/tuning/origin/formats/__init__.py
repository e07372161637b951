# SPDX-License-Identifier: Apache-2.0
"""Files that set kernel values, one reader each."""
