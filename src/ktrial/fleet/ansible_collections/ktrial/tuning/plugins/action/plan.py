# SPDX-License-Identifier: Apache-2.0
"""Show what settings would change."""

from __future__ import annotations

from ..module_utils import arguments
from ..plugin_utils.action_base import KtrialAction
from ..plugin_utils.settings import show_plan


class ActionModule(KtrialAction):
    """The task `ktrial.tuning.plan`, which runs on the controller."""

    options = arguments.PLAN
    carry_out = show_plan
