# SPDX-License-Identifier: Apache-2.0
"""Run programs in a container of an image, through an agent inside the container.

One container lives as long as the measurement. Its first process is an agent that exits when its input ends, so the
container ends even if ktrial crashes. Each session is another agent inside. The agents see the work folder under its
usual path; they measure, limit and kill like agents outside. Loads of the agent itself and all facts come from an agent
outside.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ktrial.agent.interrupts import Interrupts
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import DetachedTransport
from ktrial.bench.benchmark import PROGRAM_FOLDERS, Invocation
from ktrial.bench.guest_tools import GuestTools
from ktrial.bench.record import Execution, Watch
from ktrial.bench.run.executor import AgentExecutor, RunningAgentLoad
from ktrial.kit.errors import AgentError, KtrialError, PrivilegeMissing
from ktrial.machine.container import DEFAULT_IMAGE, Container, ContainerRequest, Runtime
from ktrial.machine.facts import FactBook

#: Path of the agent in a container.
AGENT = "/ktrial-agent"
#: Path of the host's files in a distrobox.
_HOST_FILES = "/run/host"
#: Maximum number of seconds for a command of the runtime.
_LIMIT_S = 120.0
#: Maximum number of seconds for a container to start. The first start may copy the whole image: without overlays, or
#: for another user.
_START_LIMIT_S = 600.0
_SERVE = ("serve", "--role", "user")
_INSPECT = "{{.Id}}"

#: Runs a command to its end and returns its exit status, stdout and stderr.
Ask = Callable[[Sequence[str]], "tuple[int, str, str]"]


class Runtimes:
    """Finds container runtimes and runs their commands."""

    def __init__(self, ask: Ask | None = None, find: Callable[[str], str | None] | None = None) -> None:
        self._ask = ask or _ask
        self._find = find or (lambda name: shutil.which(name, path=":".join(PROGRAM_FOLDERS)))

    def program(self, wanted: Runtime | None) -> tuple[Runtime, str]:
        """Return name and path of the wanted runtime; by default, of podman or, if that is not installed, docker."""
        choices: tuple[Runtime, ...] = (wanted,) if wanted is not None else ("podman", "docker")
        for name in choices:
            path = self._find(name)
            if path is not None:
                return name, path
        absent = f"{wanted} is not installed" if wanted is not None else "neither podman nor docker is installed"
        raise KtrialError(f"cannot use a container: {absent}", hint=f"install {choices[0]}")

    def answer(self, argv: Sequence[str], failure: str, hint: str) -> str:
        """Return the output of a runtime's command. Raise KtrialError, with the last line of stderr, if it fails."""
        status, out, err = self._ask(argv)
        if status != 0:
            said = (err.strip().splitlines() or [f"{argv[0]} ended with status {status}"])[-1]
            raise KtrialError(f"{failure}: {said.removeprefix('Error: ')}", hint=hint)
        return out.strip()

    def box(self, wanted: ContainerRequest, agent: Path, mounts: Sequence[Path]) -> Box:
        runtime, path = self.program(wanted.runtime)
        version = self._version(runtime, path)
        if runtime == "distrobox":
            return self._distrobox(wanted.name, path, version, agent)
        pull = (
            "build the image with `ktrial tools container`"
            if wanted.name == DEFAULT_IMAGE
            else f"{runtime} pull {wanted.name}"
        )
        found = self.answer(
            [path, "image", "inspect", "--format", _INSPECT, wanted.name], f"cannot use image {wanted.name}", pull
        )
        image_id = found if found.startswith("sha256:") else f"sha256:{found}"
        name = f"ktrial-{secrets.token_hex(6)}"
        options = [*self._user(runtime, path), *(f"--mount=type=bind,src={place},dst={place}" for place in mounts)]
        return Box(
            container=Container(
                runtime=runtime, runtime_version=version, image=wanted.name, image_id=image_id, argv=()
            ),
            hold=(
                *(path, "run", "--rm", "--interactive", f"--name={name}", "--network=none", "--read-only"),
                # No system call filter and no process limit: neither exists outside a container.
                *("--tmpfs=/tmp", "--pids-limit=-1", "--security-opt=seccomp=unconfined"),
                *("--security-opt=label=disable", *options, f"--mount=type=bind,src={agent},dst={AGENT},ro"),
                *(image_id, AGENT, *_SERVE),
            ),
            enter=(path, "exec", "--interactive", name, AGENT, *_SERVE),
            remove=(path, "rm", "--force", name),
        )

    def build(self, wanted: Runtime | None, text: str) -> str:
        """Build the image from the Dockerfile `text` and return its id; the runtime's output goes to stderr."""
        runtime, path = self.program(wanted)
        try:
            done = subprocess.run(
                [path, "build", "--tag", DEFAULT_IMAGE, "-"], input=text.encode(), stdout=2, cwd="/", check=False
            )
        except OSError as error:
            raise KtrialError(f"cannot start {path}: {error.strerror}", hint=f"reinstall {runtime}") from None
        if done.returncode != 0:
            raise KtrialError(
                f"{runtime} cannot build the image: it ended with status {done.returncode}",
                hint=f"read the output of {runtime} above",
            )
        return self.answer(
            [path, "image", "inspect", "--format", _INSPECT, DEFAULT_IMAGE],
            f"cannot use image {DEFAULT_IMAGE}",
            "build the image again",
        )

    def _version(self, runtime: Runtime, path: str) -> str:
        """Return the version of the runtime; for docker, the version of the daemon, which must be running."""
        if runtime != "docker":
            hint = f"make `{runtime} --version` work for this user"
            return self.answer([path, "--version"], f"cannot use {path}", hint)
        question = [path, "version", "--format", "{{.Server.Version}}"]
        hint = "make `docker info` work for this user"
        return f"docker version {self.answer(question, 'cannot use docker', hint)}"

    def _user(self, runtime: Runtime, path: str) -> list[str]:
        """Return the options that give the container's user the id of the user who runs ktrial."""
        if os.geteuid() == 0:
            return []
        if runtime == "podman":
            return ["--userns=keep-id"]
        options = self.answer(
            [path, "info", "--format", "{{.SecurityOptions}}"],
            "cannot use docker",
            "make `docker info` work for this user",
        )
        return [] if "rootless" in options else [f"--user={os.geteuid()}:{os.getegid()}"]

    def _distrobox(self, name: str, path: str, version: str, agent: Path) -> Box:
        """Return the commands for an existing distrobox; they do not change it."""
        below, manager = self.program(None)
        format_ = "{{.Id}} {{.Image}} {{.Config.Image}}"
        ids = self.answer(
            [manager, "container", "inspect", "--format", format_, name],
            f"cannot use distrobox {name}",
            f"distrobox create --name {name} --image IMAGE",
        )
        box_id, image_id, image = ids.split(" ", 2)
        return Box(
            container=Container(
                runtime="distrobox",
                runtime_version=f"{version}; {self._version(below, manager)}",
                image=image,
                image_id=image_id if image_id.startswith("sha256:") else f"sha256:{image_id}",
                argv=(),
                box_id=box_id,
            ),
            hold=(),
            enter=(path, "enter", "--no-tty", "--name", name, "--", f"{_HOST_FILES}{agent}", *_SERVE),
            remove=(),
        )


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """The commands for a container: `hold` runs it until its input ends, `enter` starts an agent in it.

    `remove` removes the container if it still exists.
    """

    container: Container
    hold: tuple[str, ...]
    enter: tuple[str, ...]
    remove: tuple[str, ...]


class ContainerExecutor:
    """Implements `bench.run.ports.Executor`: programs run in the container, loads and facts use `outside`."""

    #: Benchmarks that need root are skipped: the container has no root, and loads of root would run outside it.
    has_root = False
    runs_as_root = False
    guest: GuestTools | None = None

    def __init__(
        self, box: Callable[[], Box], outside: AgentExecutor, work: Path, interrupts: Interrupts | None = None
    ) -> None:
        self._make_box = box
        self._outside = outside
        self._inside = AgentExecutor(self._connect, work, None, interrupts=interrupts)
        self._box: Box | None = None
        self._holder: DetachedTransport | None = None

    @property
    def agent_version(self) -> str:
        return self._outside.agent_version

    @property
    def has_loads(self) -> bool:
        return self._outside.has_loads

    def obtain_root(self, purpose: str) -> None:
        """Raise PrivilegeMissing: programs in the container cannot be root."""
        raise PrivilegeMissing(
            f"{purpose} needs root, but --tools runs programs in a container without root", hint="leave out --tools"
        )

    @property
    def container(self) -> Container:
        if self._box is None:
            self._box = self._make_box()
        return msgspec.structs.replace(self._box.container, argv=self._box.hold or self._box.enter)

    def facts(self) -> FactBook:
        return self._outside.facts()

    def programs(self, names: Iterable[str]) -> dict[str, str | None]:
        with self._telling():
            return self._inside.programs(names)

    def run(self, invocation: Invocation, watch: Watch | None = None) -> Execution:
        if invocation.load is not None:
            return self._outside.run(invocation, watch)
        with self._telling():
            return msgspec.structs.replace(self._inside.run(invocation, watch), container=self.container)

    def start(self, invocation: Invocation) -> RunningAgentLoad:
        if invocation.load is not None:
            return self._outside.start(invocation)
        with self._telling():
            return self._inside.start(invocation)

    def close(self) -> None:
        self._inside.close()
        if self._holder is not None:
            self._holder.finish()
            assert self._box is not None
            # The container is gone already, unless it did not end in time.
            _ask(self._box.remove)
            self._holder = None

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Report an unreachable agent as a fault of the container, not of ktrial's installation."""
        try:
            yield
        except AgentError as error:
            if error.kind != "lost":
                raise
            image = self.container.image
            raise KtrialError(
                f"cannot reach the agent in the container of {image} ({error.message})",
                hint="run the same command again",
            ) from None

    def _connect(self) -> DetachedTransport:
        box = self._box = self._box or self._make_box()
        if box.hold and self._holder is None:
            holder = DetachedTransport(box.hold)
            self._holder = holder
            try:
                AgentSession(holder, hello_limit_s=_START_LIMIT_S)
            except AgentError as error:
                raise KtrialError(
                    f"{box.container.runtime} cannot start the agent in {box.container.image} ({error.message})",
                    hint="check that the image is for this architecture",
                ) from None
        return DetachedTransport(box.enter)


def _ask(argv: Sequence[str]) -> tuple[int, str, str]:
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        return 1, "", f"{argv[0]} did not answer in {_LIMIT_S:g} s"
    return done.returncode, done.stdout, done.stderr
