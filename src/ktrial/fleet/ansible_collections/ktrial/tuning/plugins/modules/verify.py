#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Check that applied settings are still in force."""

from __future__ import annotations

DOCUMENTATION = """
---
module: verify
short_description: Check that applied settings are still in force
version_added: "0.1.0"
description:
  - Reads back the settings of M(ktrial.tuning.apply).
  - The task fails if a value has changed since.
options:
  transaction:
    description:
      - Number of the transaction to check. Without it, the module checks all.
    type: int
extends_documentation_fragment:
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
    details: Reads as always.
  diff_mode:
    support: none
  platform:
    platforms: linux
    support: full
seealso:
  - module: ktrial.tuning.apply
  - module: ktrial.tuning.revert
author:
  - The ktrial authors (@ktrial)
"""

EXAMPLES = """
- name: Check that all settings are still in force
  ktrial.tuning.verify:
  become: true
"""

RETURN = """
transactions:
  description: Checked transactions with their steps.
  returned: always
  type: list
  elements: dict
drifted:
  description: Steps whose value is no longer in force.
  returned: always
  type: list
  elements: dict
  sample: [{"path": "/proc/sys/vm/swappiness", "outcome": "changed", "wanted": "10\\n", "now": "60\\n"}]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.arguments import VERIFY


def main() -> None:
    """Check the options, then fail with a hint: only the action plugin can do the work."""
    module = AnsibleModule(argument_spec=VERIFY, supports_check_mode=True)
    module.fail_json(
        msg="ktrial.tuning.verify runs on the controller; next: call it as a task, not as a module of another action"
    )


if __name__ == "__main__":
    main()
