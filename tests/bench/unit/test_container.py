# SPDX-License-Identifier: Apache-2.0
"""The commands for each container runtime, by answers that these runtimes give."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ktrial.bench.run.container import AGENT, Box, Runtimes
from ktrial.kit.errors import KtrialError
from ktrial.machine.container import ContainerRequest

ID = "9aa8f852e3df1c73cad646068e3c2e6928a331a28139140c4ff79ccf959ee4f6"
#: What podman 4.3.1, docker 20.10.24 (its client also in version 28.2.2) and distrobox 1.4.2.1 say; that a daemon of
#: docker is rootless, its documentation.
ANSWERS = {
    "podman --version": "podman version 4.3.1\n",
    "podman image inspect": f"{ID}\n",
    "podman container inspect": f"c0ffee {ID} docker.io/library/debian:13\n",
    "docker version": "20.10.24+dfsg1\n",
    "docker image inspect": f"sha256:{ID}\n",
    "docker info": "[name=seccomp,profile=default]\n",
    "distrobox --version": "distrobox: 1.4.2.1\n",
}


def box(
    wanted: ContainerRequest,
    *,
    there: Sequence[str] = ("podman",),
    answers: Mapping[str, str] = ANSWERS,
    log: list[str] | None = None,
) -> Box:
    def ask(argv: Sequence[str]) -> tuple[int, str, str]:
        words = " ".join(argv).replace("/usr/bin/", "")
        if log is not None:
            log.append(words)
        answer = next((answer for begin, answer in answers.items() if words.startswith(begin)), None)
        return (0, answer, "") if answer is not None else (125, "", "Error: no such object\n")

    runtimes = Runtimes(ask, lambda name: f"/usr/bin/{name}" if name in there else None)
    return runtimes.box(wanted, Path("/opt/agent"), [Path("/home/me/work"), Path("/run/user/1/work")])


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1001)
    monkeypatch.setattr(os, "getegid", lambda: 1002)


@pytest.mark.usefixtures("ordinary")
def test_rootless_podman() -> None:
    made = box(ContainerRequest(None, "debian:13"))
    name = next(word for word in made.hold if word.startswith("--name=")).removeprefix("--name=")
    assert made.hold == (
        *("/usr/bin/podman", "run", "--rm", "--interactive", f"--name={name}", "--network=none"),
        *("--read-only", "--tmpfs=/tmp", "--pids-limit=-1", "--security-opt=seccomp=unconfined"),
        *("--security-opt=label=disable", "--userns=keep-id"),
        "--mount=type=bind,src=/home/me/work,dst=/home/me/work",
        "--mount=type=bind,src=/run/user/1/work,dst=/run/user/1/work",
        *("--mount=type=bind,src=/opt/agent,dst=/ktrial-agent,ro", f"sha256:{ID}"),
        *(AGENT, "serve", "--role", "user"),
    )
    assert made.enter == ("/usr/bin/podman", "exec", "--interactive", name, AGENT, "serve", "--role", "user")
    assert made.remove == ("/usr/bin/podman", "rm", "--force", name)
    assert (made.container.image, made.container.image_id) == ("debian:13", f"sha256:{ID}")
    assert made.container.runtime_version == "podman version 4.3.1"


@pytest.mark.usefixtures("ordinary")
def test_docker_runs_as_the_user_unless_it_is_rootless() -> None:
    made = box(ContainerRequest("docker", "debian:13"), there=("podman", "docker"))
    assert "--user=1001:1002" in made.hold
    assert "--userns=keep-id" not in made.hold
    assert made.container.image_id == f"sha256:{ID}"
    assert made.container.runtime_version == "docker version 20.10.24+dfsg1"
    rootless = {**ANSWERS, "docker info": "[name=seccomp,profile=builtin name=rootless name=cgroupns]\n"}
    assert not [
        word
        for word in box(ContainerRequest("docker", "x"), there=("docker",), answers=rootless).hold
        if "--user" in word
    ]


def test_a_distrobox_stays_and_is_known_by_its_own_id() -> None:
    made = box(ContainerRequest("distrobox", "games"), there=("podman", "distrobox"))
    assert made.hold == made.remove == ()
    assert made.enter[:6] == ("/usr/bin/distrobox", "enter", "--no-tty", "--name", "games", "--")
    assert made.enter[6:] == ("/run/host/opt/agent", "serve", "--role", "user")
    assert (made.container.box_id, made.container.image_id) == ("c0ffee", f"sha256:{ID}")
    assert made.container.image == "docker.io/library/debian:13"


def test_each_start_has_a_name_of_its_own() -> None:
    assert box(ContainerRequest(None, "x")).enter != box(ContainerRequest(None, "x")).enter


def test_nothing_is_pulled() -> None:
    log: list[str] = []
    with pytest.raises(KtrialError, match="cannot use image gone: no such object") as caught:
        box(ContainerRequest(None, "gone"), answers={"podman --version": "podman version 4.3.1"}, log=log)
    assert caught.value.hint == "podman pull gone"
    assert log == ["podman --version", "podman image inspect --format {{.Id}} gone"]


def test_a_daemon_out_of_reach_is_not_taken_for_a_missing_image() -> None:
    said = "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"

    def ask(argv: Sequence[str]) -> tuple[int, str, str]:
        return (0, "Docker version 20.10.24+dfsg1, build 297e128\n", "") if "--version" in argv else (1, "", said)

    with pytest.raises(KtrialError, match="cannot use docker: permission denied while") as caught:
        Runtimes(ask, lambda name: f"/usr/bin/{name}").box(
            ContainerRequest("docker", "debian:13"), Path("/opt/agent"), []
        )
    assert caught.value.hint == "make `docker info` work for this user"


def test_the_default_image_is_made_by_a_verb() -> None:
    with pytest.raises(KtrialError) as caught:
        box(ContainerRequest(None, "localhost/ktrial-tools"), answers={"podman --version": "podman version 4.3.1"})
    assert caught.value.hint == "build the image with `ktrial tools container`"


@pytest.mark.parametrize(
    "wanted, named", [(None, "neither podman nor docker is installed"), ("distrobox", "distrobox is not installed")]
)
def test_no_runtime(wanted: str | None, named: str) -> None:
    with pytest.raises(KtrialError, match=f"cannot use a container: {named}"):
        box(ContainerRequest(wanted, "x"), there=())  # type: ignore[arg-type]
