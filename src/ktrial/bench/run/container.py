# SPDX-License-Identifier: Apache-2.0
"""Programs of a container's image, run by an agent inside it.

One container lives as long as the measurement: its first process is an agent that waits for the end of its input, so
that it ends with the head whatever becomes of that. Each session is one more agent inside. They see the work folder
under its own path, and measure, limit and kill as they do outside. The agent's own loads and all facts stay outside.
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

#: Where a container sees the agent.
AGENT = "/ktrial-agent"
#: Where a distrobox sees the host's files.
_HOST_FILES = "/run/host"
#: Seconds for a question to the runtime.
_LIMIT_S = 120.0
#: Seconds for a container to start: without overlays, or for another user, the first start copies the whole image.
_START_LIMIT_S = 600.0
_SERVE = ("serve", "--role", "user")
_INSPECT = "{{.Id}}"

#: Runs a command to its end: exit status, stdout, stderr.
Ask = Callable[[Sequence[str]], "tuple[int, str, str]"]


class Runtimes:
    """Finds container runtimes and asks them."""

    def __init__(self, ask: Ask | None = None, find: Callable[[str], str | None] | None = None) -> None:
        self._ask = ask or _ask
        self._find = find or (lambda name: shutil.which(name, path=":".join(PROGRAM_FOLDERS)))

    def program(self, wanted: Runtime | None) -> tuple[Runtime, str]:
        """Return the runtime asked for, or podman, or docker: its name and where it is."""
        choices: tuple[Runtime, ...] = (wanted,) if wanted is not None else ("podman", "docker")
        for name in choices:
            path = self._find(name)
            if path is not None:
                return name, path
        raise KtrialError(
            f"--tools container needs {' or '.join(choices)}, not installed here", hint="install podman, for example"
        )

    def answer(self, argv: Sequence[str], failure: str, hint: str) -> str:
        """Return what a question to the runtime gives; raises KtrialError with what it said instead."""
        status, out, err = self._ask(argv)
        if status != 0:
            said = (err.strip().splitlines() or [f"{argv[0]} ended with status {status}"])[-1]
            raise KtrialError(f"{failure}: {said}", hint=hint)
        return out.strip()

    def box(self, wanted: ContainerRequest, agent: Path, mounts: Sequence[Path]) -> Box:
        runtime, path = self.program(wanted.runtime)
        version = self._version(runtime, path)
        if runtime == "distrobox":
            return self._distrobox(wanted.name, path, version, agent)
        pull = "`ktrial tools container` makes it" if wanted.name == DEFAULT_IMAGE else f"{runtime} pull {wanted.name}"
        found = self.answer(
            [path, "image", "inspect", "--format", _INSPECT, wanted.name], f"no image {wanted.name} can be used", pull
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
                # No filter of system calls and no limit of processes: neither is there without a container.
                *("--tmpfs=/tmp", "--pids-limit=-1", "--security-opt=seccomp=unconfined"),
                *("--security-opt=label=disable", *options, f"--mount=type=bind,src={agent},dst={AGENT},ro"),
                *(image_id, AGENT, *_SERVE),
            ),
            enter=(path, "exec", "--interactive", name, AGENT, *_SERVE),
            remove=(path, "rm", "--force", name),
        )

    def build(self, wanted: Runtime | None, text: str) -> str:
        """Make the image of the tools, with the runtime's own words on stderr: its id."""
        runtime, path = self.program(wanted)
        try:
            done = subprocess.run(
                [path, "build", "--tag", DEFAULT_IMAGE, "-"], input=text.encode(), stdout=2, cwd="/", check=False
            )
        except OSError as error:
            raise KtrialError(f"cannot start {path}: {error.strerror}") from None
        if done.returncode != 0:
            raise KtrialError(
                f"{runtime} made no image: it ended with status {done.returncode}",
                hint="its own words above say why; --base names another image of Debian or Ubuntu to start from",
            )
        return self.answer([path, "image", "inspect", "--format", _INSPECT, DEFAULT_IMAGE], "no image was made", "")

    def _version(self, runtime: Runtime, path: str) -> str:
        """Return the version of what runs the containers: docker's is its daemon's, which must be there."""
        if runtime != "docker":
            return self.answer([path, "--version"], f"{path} cannot be used", f"try  {runtime} --version")
        question = [path, "version", "--format", "{{.Server.Version}}"]
        hint = "start its daemon; the members of its group docker, and root, may use it"
        return f"docker version {self.answer(question, 'docker cannot be used', hint)}"

    def _user(self, runtime: Runtime, path: str) -> list[str]:
        """Return what makes the container's user the one who runs ktrial."""
        if os.geteuid() == 0:
            return []
        if runtime == "podman":
            return ["--userns=keep-id"]
        told = self.answer([path, "info", "--format", "{{.SecurityOptions}}"], "docker cannot be used", "")
        return [] if "rootless" in told else [f"--user={os.geteuid()}:{os.getegid()}"]

    def _distrobox(self, name: str, path: str, version: str, agent: Path) -> Box:
        """Return a box that is there already; it stays as it is."""
        below, manager = self.program(None)
        format_ = "{{.Id}} {{.Image}} {{.Config.Image}}"
        told = self.answer(
            [manager, "container", "inspect", "--format", format_, name],
            f"no distrobox {name} can be used",
            f"distrobox create --name {name} --image IMAGE",
        )
        box_id, image_id, image = told.split(" ", 2)
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
    """A container as commands: `hold` starts it and ends it with its input, `enter` starts an agent inside."""

    container: Container
    hold: tuple[str, ...]
    enter: tuple[str, ...]
    remove: tuple[str, ...]


class ContainerExecutor:
    """Implements `bench.run.ports.Executor`: programs run inside the container, loads and facts are `outside`."""

    #: What needs root is left out: inside there is none, and root's own loads measure no container.
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
        """Never: there is nothing here that root could do."""
        raise PrivilegeMissing(f"{purpose} needs root, which --tools does not provide", hint="leave out --tools")

    @property
    def container(self) -> Container:
        if self._box is None:
            self._box = self._make_box()
        return msgspec.structs.replace(self._box.container, argv=self._box.hold or self._box.enter)

    def facts(self) -> FactBook:
        return self._outside.facts()

    def programs(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return where each program is in the container."""
        with self._telling():
            return self._inside.programs(names)

    def run(self, invocation: Invocation, watch: Watch | None = None) -> Execution:
        """Run it to its end or its limit, or to a Ctrl-C."""
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
            # Gone by itself in all but the case that it did not end in time.
            _ask(self._box.remove)
            self._holder = None

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """An agent that is not reached is the container's fault, and not that of how ktrial was set up."""
        try:
            yield
        except AgentError as error:
            if error.kind != "lost":
                raise
            image = self.container.image
            raise KtrialError(
                f"no agent can be reached in the container of {image}: {error.message}",
                hint="did somebody end it? What was measured is kept; the same command goes on from there",
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
                    f"{box.container.runtime} started no agent in {box.container.image}: {error.message}",
                    hint="its own words above say why; the image must be for this kind of machine",
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
