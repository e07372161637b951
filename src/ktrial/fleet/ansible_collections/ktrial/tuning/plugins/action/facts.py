# SPDX-License-Identifier: Apache-2.0
"""Read facts about a machine."""

from __future__ import annotations

from ..module_utils import arguments
from ..plugin_utils.action_base import KtrialAction
from ..plugin_utils.settings import read_facts


class ActionModule(KtrialAction):
    """The task `ktrial.tuning.facts`, which runs on the controller."""

    options = arguments.FACTS
    carry_out = read_facts
