#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Keep settings across boots."""

from __future__ import annotations

DOCUMENTATION = """
---
module: keep
short_description: Make settings last across boots
version_added: "0.1.0"
description:
  - Writes settings into the system's own configuration files, and applies them now.
  - With O(state=absent), the task restores the files and values. Without O(settings) and O(profiles), it then
    stops keeping everything.
  - If the files hold the settings already, the task writes nothing and reports no change.
options:
  trial:
    description:
      - Keep what this trial found better, as V(TRIAL) or V(TRIAL/ARM). The trial is in the controller's store.
    type: str
  state:
    description:
      - Whether to keep the settings, or to stop keeping them.
    type: str
    choices: [present, absent]
    default: present
  next_boot:
    description:
      - Leave the running values alone until the next boot.
    type: bool
    default: false
  anyway:
    description:
      - Write even if another file or service overrides a value.
    type: bool
    default: false
  loader:
    description:
      - Boot loader that boots the system, if there are two, such as V(grub).
    type: str
  allow_security:
    description:
      - Kernel arguments to keep even though they weaken security.
    type: list
    elements: str
    default: []
  store:
    description:
      - File or URL of the store on the controller that holds the trial.
    type: str
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
    details: Shows the files and values, and writes nothing.
  diff_mode:
    support: full
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
- name: Keep a setting across boots
  ktrial.tuning.keep:
    settings:
      net.core.somaxconn: 1024
  become: true

- name: Keep what a trial found better
  ktrial.tuning.keep:
    trial: backlog/big
  become: true

- name: Stop keeping everything
  ktrial.tuning.keep:
    state: absent
  become: true
"""

RETURN = """
files:
  description: Paths of the files that the task writes or removes.
  returned: success
  type: list
  elements: str
  sample: [/etc/sysctl.d/ktrial.conf]
settings:
  description: Kept settings, each with its value, file and reason; with O(state=absent), the removed settings.
  returned: success
  type: list
  elements: dict
transaction:
  description: Number of the transaction; null if nothing was written.
  returned: success
  type: int
  sample: 5
notes:
  description: Messages of ktrial.
  returned: when something was written
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.arguments import KEEP


def main() -> None:
    """Check the options, then fail with a hint: only the action plugin can do the work."""
    module = AnsibleModule(argument_spec=KEEP, supports_check_mode=True)
    module.fail_json(
        msg="ktrial.tuning.keep runs on the controller; next: call it as a task, not as a module of another action"
    )


if __name__ == "__main__":
    main()
