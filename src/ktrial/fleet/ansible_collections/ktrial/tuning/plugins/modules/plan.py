#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Show what settings would change."""

from __future__ import annotations

DOCUMENTATION = """
---
module: plan
short_description: Show what settings and profiles would change on a machine
version_added: "0.1.0"
description:
  - Returns what M(ktrial.tuning.apply) would change, what is set already, and what it would skip and why.
  - The task never writes anything.
extends_documentation_fragment:
  - ktrial.tuning.common.settings
  - ktrial.tuning.common
  - action_common_attributes
  - action_common_attributes.flow
attributes:
  action:
    support: full
  async:
    support: none
  bypass_host_loop:
    support: none
  check_mode:
    support: full
    details: Plans as always.
  diff_mode:
    support: full
  platform:
    platforms: linux
    support: full
seealso:
  - module: ktrial.tuning.apply
  - module: ktrial.tuning.keep
author:
  - The ktrial authors (@ktrial)
"""

EXAMPLES = """
- name: Show what a profile would change
  ktrial.tuning.plan:
    profiles: [micro-stutter-watermarks]
  become: true
  register: planned

- name: Show the changes
  ansible.builtin.debug:
    var: planned.changes
"""

RETURN = """
changes:
  description: Values that differ, each with the value before and after.
  returned: success
  type: list
  elements: dict
  sample: [{"knob": "vm.swappiness", "before": "60", "after": "10"}]
unchanged:
  description: Settings whose value is in force already.
  returned: success
  type: list
  elements: dict
  sample: [{"knob": "vm.page-cluster", "value": "3"}]
skipped:
  description: Settings that this machine cannot take, each with the reason.
  returned: success
  type: list
  elements: dict
without_effect:
  description: Settings that change nothing that matters on this machine, each with the reason.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.arguments import PLAN


def main() -> None:
    """Check the options, then fail with a hint: only the action plugin can do the work."""
    module = AnsibleModule(argument_spec=PLAN, supports_check_mode=True)
    module.fail_json(
        msg="ktrial.tuning.plan runs on the controller; next: call it as a task, not as a module of another action"
    )


if __name__ == "__main__":
    main()
