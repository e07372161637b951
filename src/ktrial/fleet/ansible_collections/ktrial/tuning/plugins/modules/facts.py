#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Read facts about a machine."""

from __future__ import annotations

DOCUMENTATION = """
---
module: facts
short_description: Read facts about a machine that matter for tuning
version_added: "0.1.0"
description:
  - Returns facts about hardware and kernel as C(ansible_facts.ktrial), by the names of C(ktrial facts).
  - The task runs on the controller. The machine needs neither Python nor anything else of Ansible.
options:
  prefixes:
    description:
      - Names of facts, or their beginnings, such as V(cpu) or V(kernel.release).
      - Without any, the module returns all facts. These include the kernel's configuration.
    type: list
    elements: str
    default: []
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
    details: Reads facts as always.
  diff_mode:
    support: none
  platform:
    platforms: linux
    support: full
seealso:
  - module: ktrial.tuning.plan
  - module: ktrial.tuning.apply
author:
  - The ktrial authors (@ktrial)
"""

EXAMPLES = """
- name: Read what kind of machine this is
  ktrial.tuning.facts:
    prefixes: [cpu.model, kernel.release, memory]

- name: Show the CPU model
  ansible.builtin.debug:
    var: ansible_facts.ktrial['cpu.model']
"""

RETURN = """
ansible_facts:
  description: Facts of the machine.
  returned: success
  type: dict
  contains:
    ktrial:
      description: Values of facts by name.
      type: dict
      sample: {"cpu.model": "AMD EPYC 9354", "kernel.release": "6.12.9"}
missing:
  description: Facts without a value, each with the reason.
  returned: success
  type: dict
  sample: {"cpu.governor": "no such file"}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.arguments import FACTS


def main() -> None:
    """Check the options, then fail with a hint: only the action plugin can do the work."""
    module = AnsibleModule(argument_spec=FACTS, supports_check_mode=True)
    module.fail_json(
        msg="ktrial.tuning.facts runs on the controller; next: call it as a task, not as a module of another action"
    )


if __name__ == "__main__":
    main()
