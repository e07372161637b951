# SPDX-License-Identifier: Apache-2.0
"""Runs real playbooks on machines of the tests, and returns the outcome of each task."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ktrial.fleet import collection
from tests.support.remote_machine import RemoteMachine

SOURCE = collection.path().parents[1]
#: An Ansible plug-in that writes one line of JSON for each task.
_LISTENER = '''
DOCUMENTATION = """
name: lines
type: aggregate
short_description: lines of JSON
description: lines of JSON
"""
import json, os
from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "lines"
    CALLBACK_NEEDS_ENABLED = True

    def _write(self, what, result):
        names = {"host": result._host.get_name(), "task": result._task.get_name()}
        line = {"what": what, **names, "result": result._result}
        with open(os.environ["TASKS_FILE"], "a") as file:
            file.write(json.dumps(line, default=str) + "\\n")

    def v2_runner_on_ok(self, result):
        self._write("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._write("failed", result)

    def v2_runner_on_unreachable(self, result):
        self._write("unreachable", result)

    def v2_runner_on_skipped(self, result):
        self._write("skipped", result)
'''


class TaskOutcome(NamedTuple):
    """The outcome of a task on one machine: ok, failed, unreachable or skipped."""

    what: str
    host: str
    task: str
    result: Mapping[str, Any]

    @property
    def changed(self) -> bool:
        return bool(self.result.get("changed"))

    @property
    def message(self) -> str:
        return str(self.result.get("msg"))


class Played(NamedTuple):
    """What a playbook printed, its exit status, and its tasks."""

    status: int
    text: str
    tasks: tuple[TaskOutcome, ...]

    def of(self, task: str, host: str = "web1") -> TaskOutcome:
        """Return the last task with this name on a machine."""
        found = [one for one in self.tasks if (one.task, one.host) == (task, host)]
        assert found, f"no {task} on {host}:\n{self.text}"
        return found[-1]

    def names(self, *, changed: bool) -> list[str]:
        return [one.task for one in self.tasks if one.changed == changed and one.what == "ok"]


def inventory_line(machine: RemoteMachine) -> str:
    return f"{machine.name} ansible_ssh_common_args='-F {machine.ssh_config}'"


def environment_of(folder: Path) -> dict[str, str]:
    """Return Ansible's variables, which exclude the user's own configuration."""
    (folder / "plugins").mkdir(exist_ok=True)
    (folder / "plugins/lines.py").write_text(_LISTENER)
    (folder / "ansible.cfg").touch()
    return {
        "ANSIBLE_COLLECTIONS_PATH": str(collection.path()),
        "ANSIBLE_CALLBACK_PLUGINS": str(folder / "plugins"),
        "ANSIBLE_CALLBACKS_ENABLED": "lines",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "PYTHONPATH": str(SOURCE),
        "TASKS_FILE": str(folder / "tasks"),
    }


def command(folder: Path, inventory: str, playbook: str, options: Sequence[str]) -> list[str]:
    program = f"ktrial_program='{sys.executable} -m ktrial'"
    (folder / "inventory").write_text(f"[web]\n{inventory}\n[web:vars]\n{program}\n")
    (folder / "playbook.yml").write_text(playbook)
    words = ["-i", str(folder / "inventory"), *options, str(folder / "playbook.yml")]
    return [sys.executable, "-m", "ansible", "playbook", *words]


def play(folder: Path, machines: Sequence[RemoteMachine], playbook: str, *options: str) -> Played:
    """Run a playbook on these machines."""
    environment = {**machines[0].environment(), **environment_of(folder)}
    words = command(folder, "\n".join(map(inventory_line, machines)), playbook, options)
    (folder / "tasks").unlink(missing_ok=True)
    done = subprocess.run(
        words, env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return Played(done.returncode, done.stdout + done.stderr, tasks_in(folder))


def tasks_in(folder: Path) -> tuple[TaskOutcome, ...]:
    file = folder / "tasks"
    lines = file.read_text().splitlines() if file.exists() else []
    return tuple(TaskOutcome(**json.loads(line)) for line in lines)


def tasks_of(*tasks: str, become: bool = True) -> str:
    """Return a playbook of these tasks, named by their numbers: 0, 1, …."""
    head = f"- hosts: web\n  gather_facts: false\n  become: {str(become).lower()}\n  tasks:\n"
    return head + "".join(f"    - {{name: '{number}', {task}}}\n" for number, task in enumerate(tasks))
