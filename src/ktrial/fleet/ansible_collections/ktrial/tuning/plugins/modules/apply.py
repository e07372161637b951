#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Apply settings."""

from __future__ import annotations

DOCUMENTATION = """
---
module: apply
short_description: Apply settings and profiles as one reversible transaction
version_added: "0.1.0"
description:
  - Writes the settings that differ, reads them back, and saves the old values first.
  - If all settings are in force already, the task writes nothing and reports no change.
  - The settings last until the next boot, or until M(ktrial.tuning.revert). M(ktrial.tuning.keep) makes them last.
options:
  revert_after:
    description:
      - Time after which the settings revert by themselves, such as V(30s), V(10m) or V(1h).
    type: str
  keep_going:
    description:
      - Apply what works and report the rest, instead of all or nothing.
    type: bool
    default: false
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
    details: Plans and writes nothing.
  diff_mode:
    support: full
  platform:
    platforms: linux
    support: full
seealso:
  - module: ktrial.tuning.plan
  - module: ktrial.tuning.verify
  - module: ktrial.tuning.revert
  - module: ktrial.tuning.keep
author:
  - The ktrial authors (@ktrial)
"""

EXAMPLES = """
- name: Apply two settings
  ktrial.tuning.apply:
    settings:
      vm.swappiness: 10
      queue:scheduler@[rotational=false]: none
  become: true

- name: Try a profile for an hour
  ktrial.tuning.apply:
    profiles: [micro-stutter-watermarks]
    revert_after: 1h
  become: true
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
transaction:
  description: Number of the transaction; null if nothing was written.
  returned: success
  type: int
  sample: 3
steps:
  description: Each value that was written, and its outcome.
  returned: when something was written
  type: list
  elements: dict
notes:
  description: Messages of ktrial.
  returned: when something was written
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.arguments import APPLY


def main() -> None:
    """Check the options, then fail with a hint: only the action plugin can do the work."""
    module = AnsibleModule(argument_spec=APPLY, supports_check_mode=True)
    module.fail_json(
        msg="ktrial.tuning.apply runs on the controller; next: call it as a task, not as a module of another action"
    )


if __name__ == "__main__":
    main()
