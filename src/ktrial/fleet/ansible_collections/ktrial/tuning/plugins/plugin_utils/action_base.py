# SPDX-License-Identifier: Apache-2.0
"""The base class of the action plugins, which run `ktrial` on the controller and return its answer."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from .program import Ktrial, MachineUnreachable, TaskFailed, program_words
from .ssh_words import control_folder, ssh_words

_ROOT_PROGRAMS = ("sudo", "doas")


class KtrialAction(ActionBase):
    """A task of one module. `options` and `rules` define its arguments; `carry_out` does the work."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    options: ClassVar[Mapping[str, Any]]
    rules: ClassVar[Mapping[str, Any]] = {}
    carry_out: Callable[..., dict[str, Any]]

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        checked, _ = self.validate_argument_spec(argument_spec=self.options, **self.rules)
        given = self._with_files(checked.validated_parameters)
        try:
            ktrial = self._ktrial(task_vars or {}, given)
            found = type(self).carry_out(ktrial, given, writes=not self._task.check_mode)
        except MachineUnreachable as failure:
            raise AnsibleConnectionFailure(str(failure)) from None
        except TaskFailed as failure:
            found = failure.result
        if not self._task.diff:
            found.pop("diff", None)
        return {**result, **found}

    def _with_files(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the options with full paths of files, which may be beside the playbook or in `files` of a role."""
        profiles = [self._file(one) if one.endswith(".toml") else one for one in given.get("profiles", ())]
        files = {"file": self._file(given["file"])} if given.get("file") else {}
        return {**given, **({"profiles": profiles} if profiles else {}), **files}

    def _file(self, name: str) -> str:
        return str(self._find_needle("files", name))

    def _ktrial(self, variables: Mapping[str, Any], given: Mapping[str, Any]) -> Ktrial:
        """Return ktrial for the task's machine, with the options of the connection."""
        name = str(self._connection.ansible_name).removeprefix("ansible.builtin.")
        become = self._connection.become
        words = program_words(variables.get("ktrial_program"))
        environment = {**os.environ, **self._task_environment()}
        environment.pop("KTRIAL_SSH", None)
        password = self._become_password(become)
        words += [] if become is not None else ["--no-sudo"]
        words += ["--store", given["store"]] if given.get("store") else []
        has_password = None
        if name == "ssh":
            option = self._connection.get_option
            words += ["--host", f"ssh:{option('host')}"]
            environment["KTRIAL_SSH"] = shlex.join(self._ssh_words())
            has_password = (
                option("password") and "let the user log in with a key, because ktrial cannot use `ansible_password`"
            )
            words += ["--host-keep-agent"] if given["keep_agent"] else []
        elif name != "local":
            raise TaskFailed(
                f"cannot use the connection {name}: ktrial reaches machines by ssh, or works on the controller itself",
                "set `connection: ssh` or `connection: local` for this task",
            )
        return Ktrial(
            words,
            environment,
            password=password,
            has_root=become is not None,
            login_hint=has_password,
        )

    def _ssh_words(self) -> list[str]:
        option = self._connection.get_option
        if _option_or_none(option, "private_key"):
            raise TaskFailed(
                "cannot use a private key from a variable",
                "set `ansible_ssh_private_key_file`, or add the key to your ssh-agent",
            )
        words = ssh_words(option)
        if any(word.startswith("ControlPath=") for word in words):
            Path(control_folder(option)).mkdir(mode=0o700, parents=True, exist_ok=True)
        return words

    def _become_password(self, become: Any) -> str | None:
        """Return the password for sudo on the machine; None if the task gives none.

        Raise TaskFailed for a way to become root that ktrial cannot use.
        """
        if become is None:
            return None
        method = str(become.name).rpartition(".")[2]
        user, program, password = (
            become.get_option(name, playcontext=self._play_context)
            for name in ("become_user", "become_exe", "become_pass")
        )
        if method not in _ROOT_PROGRAMS:
            raise TaskFailed(
                f"cannot become root with {method}: ktrial uses only sudo or doas",
                "set `become_method: sudo` for this task",
            )
        if program and Path(program).name not in _ROOT_PROGRAMS:
            raise TaskFailed(
                f"cannot become root with {program}: ktrial uses only sudo or doas",
                "set `become_exe` to sudo or doas for this task",
            )
        if user not in {None, "", "root"}:
            raise TaskFailed(f"cannot become {user}: ktrial needs root", "set `become_user: root` for this task")
        return None if password is None else str(password)

    def _task_environment(self) -> dict[str, str]:
        """Return the variables of the task and its play, for the program on the controller."""
        found: dict[str, str] = {}
        self._compute_environment_string(found)
        return {str(name): str(value) for name, value in found.items()}


def _option_or_none(option: Callable[[str], Any], name: str) -> Any:
    """Return an option, or None in versions of Ansible that lack it."""
    try:
        return option(name)
    except KeyError:
        return None
