# SPDX-License-Identifier: Apache-2.0
"""Options that several modules share."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of the options that all modules have, and of the options for settings."""

    DOCUMENTATION = """
options:
  keep_agent:
    description:
      - Leave the copy of ktrial's agent on the machine, so that the next task starts sooner.
    type: bool
    default: false
requirements:
  - ktrial on the controller
notes:
  - The task runs on the controller. It finds C(ktrial) in the variable C(ktrial_program), in the folder of Ansible's
    Python, or in C(PATH).
  - ktrial connects with the options of the C(ssh) connection, and becomes root with C(sudo) or C(doas) if the task
    has C(become). With the C(local) connection, it works on the controller itself.
  - Variables of the task's C(environment) reach ktrial, not the machine.
"""

    SETTINGS = """
options:
  settings:
    description:
      - Values by the names of their knobs, such as V(vm.swappiness) or V(queue:scheduler@nvme0n1).
    type: dict
    default: {}
  profiles:
    description:
      - Names of profiles, or paths of profile files on the controller.
    type: list
    elements: str
    default: []
  allow_dangerous:
    description:
      - Include settings marked dangerous.
    type: bool
    default: false
"""
