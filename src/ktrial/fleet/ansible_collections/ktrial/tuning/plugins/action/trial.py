# SPDX-License-Identifier: Apache-2.0
"""Carry out one step of a trial."""

from __future__ import annotations

from ..module_utils import arguments
from ..plugin_utils.action_base import KtrialAction
from ..plugin_utils.trials import step_trial


class ActionModule(KtrialAction):
    """The task `ktrial.tuning.trial`, which runs on the controller."""

    options = arguments.TRIAL
    rules = arguments.TRIAL_RULES
    carry_out = step_trial
