# SPDX-License-Identifier: Apache-2.0
"""`ktrial bench --tools container` in real rootless podman, as an ordinary user, with an image of busybox alone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.containers import give, ktrial, processes, sleepers, started, wait_until
from tests.support.kept import raw, records, work
from tests.support.user import User, ordinary_user

# One worker, because there is one user: making one takes a second, starting a container two.
pytestmark = pytest.mark.xdist_group("container")
#: This machine's containers: storage without overlays, and the runtime that takes every layout of control groups.
STORAGE = '[storage]\ndriver = "vfs"\n'
ENGINE = '[engine]\nruntime = "runc"\n'


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    """A user with an image, a ktrial that needs no set-up, and benchmarks of their own."""
    with ordinary_user("container") as user:
        files = {"containers/storage.conf": STORAGE, "containers/containers.conf": ENGINE}
        give(user, files)
        made = user.start("podman", "import", "image.tar", "tools", directory=user.home)
        assert made.returncode == 0, made.stderr
        first = user.start("./ktrial", "--version")
        assert first.returncode == 0, first.stderr
        try:
            yield user
        finally:
            user.start("podman", "system", "reset", "--force", directory=user.home)
            for process in processes(user):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


def containers(user: User) -> str:
    return user.start("podman", "ps", "--all", "--quiet", directory=user.home).stdout


def newest(user: User) -> list[Any]:
    """The records of the newest measurement."""
    found = records(user.home)
    return [record for record in found if record["session"] == found[-1]["session"]]


def test_a_program_of_the_image_is_measured_by_the_agent_inside(user: User) -> None:
    ran = ktrial(user, "bench", "looks", "-n", "2", "--tools", "container=tools")
    assert ran.returncode == 0, ran.stderr
    first, second = newest(user)
    found = user.start("podman", "image", "inspect", "--format", "{{.Id}}", "tools", directory=user.home)
    assert first["container"]["image_id"] == f"sha256:{found.stdout.strip()}"
    assert (first["container"]["runtime"], first["container"]["image"]) == ("podman", "tools")
    assert first["container"]["runtime_version"].startswith("podman version ")
    assert first["container"] == second["container"]
    told = ktrial(user, "show", f"{first['session']['session']}/1")
    assert told.returncode == 0, told.stderr
    shown = " ".join(told.stdout.split())
    assert f"{first['container']['runtime_version']}, image tools ({first['container']['image_id']})" in shown
    assert first["argv"][0] == "/bin/sh"
    printed = raw(user.home, first["raw"]["stdout"]).decode().splitlines()
    assert printed[0] == str(user.uid)
    assert printed[1].split()[:2] == ["/sys/class/net/lo", "/bin"]
    assert "/ktrial-agent" in printed[1].split()
    assert f"{work(user.home)}/{Path(first['directory']).name}" in printed
    assert {one["outcome"]: one["value"] for one in first["measurements"]}["speed"] == 5
    # The tool's own memory and time, not those of the runtime's client.
    assert first["resources"]["max_rss_bytes"] < 10 << 20
    assert first["resources"]["wall_ns"] < 1e9
    assert containers(user) == ""


def test_what_can_run_is_examined_inside(user: User) -> None:
    ran = ktrial(user, "bench", "--list", "--json", "--tools", "container=tools")
    listed = {one["benchmark"]: one for one in json.loads(ran.stdout)["benchmarks"]}
    assert listed["looks"]["why"] is None
    assert listed["absent"]["why"] == "git is not installed"
    assert "`ktrial tools container` builds one" in listed["absent"]["next"]
    assert listed["agent-spin"]["why"] is None
    assert listed["cyclictest-fifo"]["why"] is not None
    here = json.loads(ktrial(user, "bench", "--list", "--json").stdout)["benchmarks"]
    assert next(one for one in here if one["benchmark"] == "absent")["why"] is None


def test_the_agents_own_loads_stay_outside(user: User) -> None:
    ran = ktrial(user, "bench", "agent-spin", "-n", "1", "--tools", "container=tools")
    assert ran.returncode == 0, ran.stderr
    assert newest(user)[0]["container"] is None


def test_at_the_limit_everything_in_the_container_ends(user: User) -> None:
    ran = ktrial(user, "bench", "stubborn", "-n", "1", "--tools", "container=tools")
    assert ran.returncode == 1
    assert "exceeded its time limit and was killed" in ran.stderr
    assert (sleepers(user), containers(user)) == (0, "")


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_however_the_head_ends_the_container_ends_too(user: User, number: signal.Signals, status: int) -> None:
    process = started(user, "bench", "endless", "-n", "1", "--tools", "container=tools")
    process.send_signal(number)
    assert process.wait(60) == status
    wait_until(lambda: sleepers(user) == 0)
    wait_until(lambda: containers(user) == "")


def test_a_container_that_somebody_ends_is_named(user: User) -> None:
    process = started(
        user, "bench", "endless", "-n", "2", "--fresh", "--tools", "container=tools", said=user.home / "said"
    )
    assert user.start("podman", "kill", "--all", directory=user.home).returncode == 0
    assert process.wait(60) == 1
    said = (user.home / "said").read_text()
    assert "cannot reach the agent in the container of tools" in said
    assert "run the same command again" in said
    assert "remove .setup" not in said
    assert (sleepers(user), containers(user)) == (0, "")


@pytest.mark.parametrize(
    "tools, message",
    [
        ("container", "build the image with `ktrial tools container`"),
        ("container=nosuch", "next: podman pull nosuch"),
        ("container=docker:tools", "cannot use docker|docker is not installed"),
    ],
)
def test_what_is_not_there_is_not_downloaded(user: User, tools: str, message: str) -> None:
    ran = ktrial(user, "bench", "looks", "-n", "1", "--tools", tools)
    assert ran.returncode == 1
    assert any(part in ran.stderr for part in message.split("|")), ran.stderr


def test_a_command_after_dashes_runs_in_no_container(user: User) -> None:
    ran = ktrial(user, "bench", "--tools", "container=tools", "--", "true")
    assert (ran.returncode, "cannot combine --tools with a command" in ran.stderr) == (2, True)
