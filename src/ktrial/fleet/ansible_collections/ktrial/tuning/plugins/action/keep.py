# SPDX-License-Identifier: Apache-2.0
"""Keep settings across boots."""

from __future__ import annotations

from ..module_utils import arguments
from ..plugin_utils.action_base import KtrialAction
from ..plugin_utils.lasting import keep_settings


class ActionModule(KtrialAction):
    """The task `ktrial.tuning.keep`, which runs on the controller."""

    options = arguments.KEEP
    carry_out = keep_settings
