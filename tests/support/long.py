# SPDX-License-Identifier: Apache-2.0
"""Whether the long check runs: what takes minutes more than it tells is left to it."""

import os

IS_LONG = os.environ.get("KTRIAL_FUZZ") == "new"
