# SPDX-License-Identifier: Apache-2.0
"""Restore the values from before transactions."""

from __future__ import annotations

from ..module_utils import arguments
from ..plugin_utils.action_base import KtrialAction
from ..plugin_utils.settings import revert_settings


class ActionModule(KtrialAction):
    """The task `ktrial.tuning.revert`, which runs on the controller."""

    options = arguments.REVERT
    rules = arguments.REVERT_RULES
    carry_out = revert_settings
