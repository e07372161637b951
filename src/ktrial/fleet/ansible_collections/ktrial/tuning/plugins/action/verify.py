# SPDX-License-Identifier: Apache-2.0
"""Check that applied settings are still in force."""

from __future__ import annotations

from ..module_utils import arguments
from ..plugin_utils.action_base import KtrialAction
from ..plugin_utils.settings import verify_settings


class ActionModule(KtrialAction):
    """The task `ktrial.tuning.verify`, which runs on the controller."""

    options = arguments.VERIFY
    carry_out = verify_settings
