#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Carry out one step of a trial."""

from __future__ import annotations

DOCUMENTATION = """
---
module: trial
short_description: Make one step of a trial that the machine carries out by itself
version_added: "0.1.0"
description:
  - Starts a trial, fetches what the machine has finished, or stops it. Each task ends at once.
  - The machine makes the blocks by itself, from plans that its agent checks. Nothing of Ansible runs on the
    machine.
  - Call the task with O(state=collected) again until RV(state) is V(ended). It sends the next plan each time.
options:
  file:
    description:
      - Protocol file of the trial, on the controller.
    type: path
  name:
    description:
      - Name of the trial. By default, the module takes it from O(file).
    type: str
  state:
    description:
      - V(started) starts the trial, unless the store has one of that name.
      - V(collected) fetches the finished blocks and sends the next plan.
      - V(stopped) ends the trial and restores all settings. What it has measured stays.
      - V(watched) is for C(ktrial fleet). It starts a live trial from O(file), or continues the trial O(name). A
        process on the controller watches the trial after the task, as long as a coordinator holds O(fleet).
    type: str
    choices: [started, collected, stopped, watched]
    default: started
  fence:
    description:
      - Number of the coordinator. The machine refuses plans of a coordinator with a lower number.
    type: int
  fleet:
    description:
      - Name of the fleet's trial, with O(state=watched).
    type: str
  output:
    description:
      - File on the controller for what the process writes, with O(state=watched).
    type: path
  when_idle:
    description:
      - Send a block only while the machine is otherwise idle, and repeat blocks during which somebody used it.
    type: bool
    default: false
  store:
    description:
      - File or URL of the store on the controller for runs and results.
      - Give each machine a store of its own, such as V({{ inventory_hostname }}.db). In a shared store, trials of the
        same name would collide.
    type: str
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
    details: Reads the store and says whether there is something to do.
  diff_mode:
    support: none
  platform:
    platforms: linux
    support: full
seealso:
  - module: ktrial.tuning.keep
author:
  - The ktrial authors (@ktrial)
"""

EXAMPLES = """
- name: Start the trial on each machine
  ktrial.tuning.trial:
    file: backlog.toml
    store: "{{ inventory_hostname }}.db"
  become: true

- name: Collect until the trial has ended
  ktrial.tuning.trial:
    file: backlog.toml
    state: collected
    store: "{{ inventory_hostname }}.db"
  become: true
  register: trial
  until: trial.state == "ended"
  retries: 200
  delay: 60
"""

RETURN = """
trial:
  description: Name of the trial in the store.
  returned: success
  type: str
  sample: backlog
state:
  description: V(running), V(ended) or V(stopped).
  returned: unless in check mode
  type: str
  sample: running
blocks:
  description: Number of finished blocks.
  returned: when the trial runs or has ended
  type: int
  sample: 7
cap:
  description: Maximum number of blocks.
  returned: after a step
  type: int
  sample: 20
next_look_s:
  description: Seconds until the machine should have finished its plan; null if the trial has ended.
  returned: after a step
  type: float
  sample: 310.5
in_use:
  description: What uses the machine, which therefore got no block (with O(when_idle=true)); null otherwise.
  returned: after a step
  type: str
  sample: session 3 (tty) of ann
process:
  description: Process on the controller that watches the live work.
  returned: with O(state=watched)
  type: int
  sample: 4711
tripped:
  description: Whether a guard ended the trial.
  returned: after a step
  type: bool
result:
  description: The trial's result.
  returned: after the last step
  type: dict
notes:
  description: Messages of ktrial.
  returned: after a step
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.arguments import TRIAL, TRIAL_RULES


def main() -> None:
    """Check the options, then fail with a hint: only the action plugin can do the work."""
    module = AnsibleModule(argument_spec=TRIAL, supports_check_mode=True, **TRIAL_RULES)
    module.fail_json(
        msg="ktrial.tuning.trial runs on the controller; next: call it as a task, not as a module of another action"
    )


if __name__ == "__main__":
    main()
