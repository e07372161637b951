# SPDX-License-Identifier: Apache-2.0
"""Apply settings."""

from __future__ import annotations

from ..module_utils import arguments
from ..plugin_utils.action_base import KtrialAction
from ..plugin_utils.settings import apply_settings


class ActionModule(KtrialAction):
    """The task `ktrial.tuning.apply`, which runs on the controller."""

    options = arguments.APPLY
    carry_out = apply_settings
