#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Restore the values from before transactions."""

from __future__ import annotations

DOCUMENTATION = """
---
module: revert
short_description: Restore the values from before transactions
version_added: "0.1.0"
description:
  - Restores what M(ktrial.tuning.apply) and M(ktrial.tuning.keep) changed.
  - Without O(transaction) and O(newer_than), the task reverts all transactions. This includes what a running
    trial has applied.
  - If nothing is left to revert, the task reports no change.
options:
  transaction:
    description:
      - Revert this transaction only; values of newer ones stay.
    type: int
  newer_than:
    description:
      - Revert every transaction that is newer than this one.
    type: int
  force:
    description:
      - Also restore values that another program has changed since.
      - Without it, the task leaves them alone and fails.
    type: bool
    default: false
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
    details: Lists what it would revert.
  diff_mode:
    support: full
  platform:
    platforms: linux
    support: full
seealso:
  - module: ktrial.tuning.apply
  - module: ktrial.tuning.verify
author:
  - The ktrial authors (@ktrial)
"""

EXAMPLES = """
- name: Restore everything
  ktrial.tuning.revert:
  become: true

- name: Restore what one task has changed
  ktrial.tuning.revert:
    transaction: "{{ applied.transaction }}"
  become: true
"""

RETURN = """
transactions:
  description: Numbers of the transactions, the newest first.
  returned: success
  type: list
  elements: int
  sample: [4, 3]
changes:
  description: Values that the task restores, each with the value before and after.
  returned: success
  type: list
  elements: dict
  sample: [{"knob": "vm.swappiness", "before": "10", "after": "60"}]
steps:
  description: Each value, and its outcome.
  returned: when something was reverted
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.arguments import REVERT, REVERT_RULES


def main() -> None:
    """Check the options, then fail with a hint: only the action plugin can do the work."""
    module = AnsibleModule(argument_spec=REVERT, supports_check_mode=True, **REVERT_RULES)
    module.fail_json(
        msg="ktrial.tuning.revert runs on the controller; next: call it as a task, not as a module of another action"
    )


if __name__ == "__main__":
    main()
