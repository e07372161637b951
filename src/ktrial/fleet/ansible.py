# SPDX-License-Identifier: Apache-2.0
"""Reads an Ansible inventory, and runs tasks of the collection `ktrial.tuning` on its hosts.

Inventory, groups, variables, connections, become and vault work as in Ansible. The tasks run on this machine and reach
the hosts through the connection that the inventory describes.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from ktrial.fleet import collection
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.own_code import install_step

_LIMIT_S = 120.0
#: Seconds after which a long task lets the coordinator renew its lease.
BEAT_S = 10.0
#: Seconds between two looks at whether Ansible has ended.
_LOOK_S = 0.2
_UNPARSED = b"Unable to parse "
_CAUSE = re.compile(r"\[(ERROR|WARNING)\]: (Failed to parse inventory with '[a-z_]+' plugin: )?|ERROR! |fatal: ")
_STATES = {"runner_on_ok": "ok", "runner_on_failed": "failed", "runner_on_unreachable": "unreachable"}


class Inventory(msgspec.Struct, frozen=True):
    """The hosts that a pattern selects, with their groups and variables."""

    hosts: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, tuple[str, ...]]


class _Group(msgspec.Struct, frozen=True):
    """A group of the inventory, or its `_meta`, which has the variables of all hosts."""

    hosts: tuple[str, ...] = ()
    hostvars: Mapping[str, Mapping[str, Any]] = {}


class TaskResult(NamedTuple):
    """The result of a task on one host."""

    host: str
    state: Literal["ok", "failed", "unreachable"]
    content: Mapping[str, Any]

    @property
    def message(self) -> str:
        """The reason why the task did not succeed."""
        told = str(self.content.get("msg") or self.content.get("stderr") or self.state)
        return told.strip().removeprefix("Task failed: ").partition("; next: ")[0]


class Ansible:
    """Ansible on this machine, for the hosts of one inventory. `program` starts ktrial; `folder` is private."""

    def __init__(
        self,
        sources: Sequence[str],
        program: Sequence[str],
        folder: Path,
        *,
        limit: str | None,
        forks: int,
        store: str,
    ) -> None:
        self._sources = [str(Path(one).absolute()) if Path(one).exists() else one for one in sources]
        self._program = tuple(program)
        self._folder = folder
        self._limit = limit
        self._forks = forks
        self._store = store

    def inventory(self) -> Inventory:
        """Read the inventory. Raise BadInput if it is unreadable or selects no host, KtrialError if Ansible hangs."""
        for source in self._sources:
            if "," not in source and not Path(source).exists():
                raise BadInput(
                    f"{source}: no such inventory",
                    hint="name a file or folder, or list hosts with a comma after each, for example  web1,web2,",
                )
        argv = [_path_of("ansible-inventory"), *self._words(), "--list"]
        argv += [] if self._limit is None else ["--limit", self._limit]
        try:
            done = subprocess.run(
                argv,
                check=False,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            raise KtrialError(
                f"ansible-inventory did not answer within {_LIMIT_S:.0f} s",
                hint=f"run the command by hand: {shlex.join(argv)}",
            ) from None
        if done.returncode or _UNPARSED in done.stderr:
            raise BadInput(
                f"Ansible cannot read the inventory: {_cause_in(done.stderr)}",
                hint=f"run the command by hand: {shlex.join(argv)}",
            )
        found = parse_inventory(done.stdout)
        if not found.hosts:
            sources = ", ".join(self._sources)
            if self._limit is None:
                raise BadInput(f"{sources}: no hosts in this inventory", hint="add hosts to the inventory")
            raise BadInput(
                f"no host of the inventory matches --limit {self._limit}",
                hint="run `ansible-inventory -i INVENTORY --graph` to list hosts and groups",
            )
        return found

    def run(
        self, module: str, arguments: Mapping[str, Mapping[str, Any]], *, check: bool = False
    ) -> Iterator[TaskResult | None]:
        """Run one task on each host with that host's arguments; yield each host's result as soon as it arrives.

        With `check`, nothing is written. From time to time yield None. If the caller stops early, Ansible ends too.
        """
        names = sorted({name for one in arguments.values() for name in one})
        # The arguments are encoded, so that Ansible never reads a value as a template, which could run commands here.
        encoded = base64.b64encode(json.dumps(arguments).encode()).decode()
        found = "(ktrial_arguments | b64decode | from_json)[inventory_hostname]"
        task = {name: f"{{{{ {found}.{name} | default(omit) }}}}" for name in names}
        play = {
            "hosts": list(arguments),
            "gather_facts": False,
            "check_mode": check,
            "vars": {"ktrial_arguments": encoded, "ktrial_program": shlex.join(self._program)},
            "tasks": [{"name": module, f"ktrial.tuning.{module}": task}],
        }
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            book = Path(folder, "play.json")
            book.write_text(json.dumps([play]), encoding="utf-8")
            yield from self._played(Path(folder), book, set(arguments))

    def _played(self, folder: Path, book: Path, hosts: set[str]) -> Iterator[TaskResult | None]:
        results: queue.SimpleQueue[TaskResult] = queue.SimpleQueue()
        stopped = threading.Event()

        def take(event: Mapping[str, Any]) -> bool:
            state = _STATES.get(event.get("event", ""))
            data = event.get("event_data", {})
            if state is not None:
                results.put(TaskResult(data["host"], state, data.get("res", {})))  # type: ignore[arg-type]
            return False

        runner = _runner()
        thread, run = runner.run_async(
            private_data_dir=str(folder),
            # With a local connection, plans start their commands in this folder, and `folder` may be gone by then.
            project_dir=str(Path.cwd()),
            playbook=str(book),
            cmdline=shlex.join([*self._words(), "--forks", str(self._forks)]),
            envvars=self._environment(),
            quiet=True,
            event_handler=take,
            cancel_callback=stopped.is_set,
        )
        try:
            beat_s = time.monotonic()
            while hosts and (thread.is_alive() or not results.empty()):
                try:
                    found = results.get(timeout=_LOOK_S)
                except queue.Empty:
                    if time.monotonic() - beat_s >= BEAT_S:
                        beat_s = time.monotonic()
                        yield None
                    continue
                hosts.discard(found.host)
                yield found
        finally:
            stopped.set()
            thread.join()
        if run.status == "successful":
            for host in sorted(hosts):
                yield TaskResult(host, "unreachable", {"msg": "the inventory no longer lists this host"})
        elif hosts:
            why = _cause_in(run.stdout.read().encode()) if run.stdout is not None else run.status
            names = ", ".join(sorted(hosts))
            raise KtrialError(f"Ansible ended without a result for {names}: {why}", hint="run the command again")

    def _words(self) -> list[str]:
        return [word for source in self._sources for word in ("-i", source)]

    def _environment(self) -> dict[str, str]:
        paths = [str(collection.path()), *filter(None, [os.environ.get("ANSIBLE_COLLECTIONS_PATH")])]
        folder = str(Path(sys.executable).parent)
        return {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": os.pathsep.join(paths),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_DEPRECATION_WARNINGS": "0",
            "ANSIBLE_INJECT_FACT_VARS": "0",
            # ansible-runner would switch host key checking off.
            "ANSIBLE_HOST_KEY_CHECKING": os.environ.get("ANSIBLE_HOST_KEY_CHECKING", "True"),
            # The address is not on a command line, where others could read a password in it.
            "KTRIAL_STORE": self._store,
            "PATH": os.pathsep.join([folder, os.environ.get("PATH", "/usr/bin:/bin")]),
        }


def parse_inventory(data: bytes) -> Inventory:
    """Parse the output of `ansible-inventory --list`."""
    try:
        tree = msgspec.json.decode(data, type=dict[str, _Group])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise KtrialError(
            f"cannot read the output of ansible-inventory: {error}",
            hint="check the output of `ansible-inventory -i INVENTORY --list`",
        ) from None
    variables = tree.pop("_meta", _Group()).hostvars
    groups = {name: group.hosts for name, group in tree.items()}
    listed = {host for hosts in groups.values() for host in hosts}
    hosts = {host: variables.get(host, {}) for host in sorted(listed | set(variables))}
    return Inventory(hosts, {name: hosts for name, hosts in groups.items() if hosts})


def _path_of(program: str) -> str:
    beside = Path(sys.executable).with_name(program)
    path = str(beside) if beside.exists() else shutil.which(program)
    if path is None:
        raise KtrialError("cannot use a fleet: Ansible is not installed", hint=install_step("ktrial[fleet]", "fleet"))
    return path


def _runner() -> Any:
    try:
        import ansible_runner
    except ModuleNotFoundError:
        raise KtrialError(
            "cannot use a fleet: ansible-runner is not installed", hint=install_step("ktrial[fleet]", "fleet")
        ) from None
    return ansible_runner


def _cause_in(output: bytes) -> str:
    """Return the first line of an error in the output."""
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    chosen = next((line for line in lines if _CAUSE.match(line)), lines[-1] if lines else "no reason given")
    return _CAUSE.sub("", chosen.strip())
