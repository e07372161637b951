# SPDX-License-Identifier: Apache-2.0
"""`ktrial bench --tools container` in a docker of this test's own and in a distrobox, as an ordinary user."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.containers import give, ktrial, processes, sleepers, started, wait_until
from tests.support.debian import DebianRoot
from tests.support.kept import raw, records
from tests.support.user import User, ordinary_user

pytestmark = [pytest.mark.xdist_group("runtimes"), pytest.mark.timeout(1200)]
#: What a distrobox would install when it is first entered, were it not there.
BOX_PACKAGES = (
    *("apt-utils", "bc", "curl", "dialog", "diffutils", "findutils", "gnupg", "less", "libnss-myhostname"),
    *("libvte-2.91-common", "lsof", "mount", "ncurses-base", "passwd", "pinentry-curses", "procps", "sudo"),
    *("time", "util-linux", "wget"),
)
#: It sees the host's files under /run/host.
SEES = """name = "sees"
what = "A test."
argv = ["sh", "-c", "id -u; ls -d /run/host/home; echo speed: $(echo 5^2 | bc)"]
[[metric]]
name = "speed_count"
direction = "higher"
match = "speed: ([0-9]+)"
"""
STORAGE = '[storage]\ndriver = "vfs"\n'
ENGINE = '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with ordinary_user("runtimes") as user:
        give(
            user,
            {
                "ktrial/benchmarks/sees.toml": SEES,
                "containers/storage.conf": STORAGE,
                "containers/containers.conf": ENGINE,
            },
        )
        first = user.start("./ktrial", "--version")
        assert first.returncode == 0, first.stderr
        try:
            yield user
        finally:
            for process in processes(user):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


@pytest.fixture(scope="module")
def docker(user: User) -> Iterator[Mapping[str, str]]:
    """A daemon with folders and a socket of its own, which the user may talk to; it has the image `tools`."""
    # In /tmp itself: the name of a socket has little room.
    folder = Path(tempfile.mkdtemp(prefix="ktrial-docker-"))
    folder.chmod(0o755)
    reach = {"DOCKER_HOST": f"unix://{folder}/socket"}
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(
            [
                *("/usr/sbin/dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none"),
                *("--storage-driver=vfs", f"--data-root={folder}/data", f"--exec-root={folder}/exec"),
                *(f"--pidfile={folder}/pid", f"--host={reach['DOCKER_HOST']}", f"--group={user.name}"),
            ],
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: (folder / "socket").exists() or daemon.poll() is not None)
        made = user.start("/usr/bin/docker", "import", "image.tar", "tools", directory=user.home, environment=reach)
        assert made.returncode == 0, made.stderr + (folder / "log").read_text()
        yield reach
    finally:
        daemon.terminate()
        daemon.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def distrobox(user: User, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """A box called `box` on a Debian of its own, in podman."""
    root = DebianRoot.make(tmp_path_factory.mktemp("box") / "root", *BOX_PACKAGES)
    runtime = Path(tempfile.mkdtemp(prefix="ktrial-session-"))
    shutil.chown(runtime, user.name, user.name)
    reach = {"XDG_RUNTIME_DIR": str(runtime), "USER": user.name}
    subprocess.run(["tar", "-C", root.folder, "--one-file-system", "-cf", user.home / "box.tar", "."], check=True)
    shutil.rmtree(root.folder)
    try:
        for words in (
            ("podman", "import", "box.tar", "boxed"),
            ("distrobox", "create", "--yes", "--no-entry", "--image", "localhost/boxed", "--name", "box"),
            ("distrobox", "enter", "--no-tty", "--name", "box", "--", "true"),
        ):
            done = user.start(*words, directory=user.home, environment=reach)
            assert done.returncode == 0, done.stdout + done.stderr
        yield reach
    finally:
        user.start("podman", "system", "reset", "--force", directory=user.home, environment=reach)
        shutil.rmtree(runtime, ignore_errors=True)


def newest(user: User) -> list[Any]:
    """The records of the newest measurement."""
    found = records(user.home)
    return [record for record in found if record["session"] == found[-1]["session"]]


def test_docker_runs_the_tools_as_the_user(user: User, docker: Mapping[str, str]) -> None:
    ran = ktrial(user, "bench", "looks", "-n", "2", "--tools", "container=docker:tools", environment=docker)
    assert ran.returncode == 0, ran.stderr
    first, second = newest(user)
    asked = ("/usr/bin/docker", "image", "inspect", "--format", "{{.Id}}", "tools")
    found = user.start(*asked, directory=user.home, environment=docker)
    assert first["container"]["image_id"] == found.stdout.strip()
    assert first["container"]["runtime_version"].startswith("docker version ")
    assert first["container"] == second["container"]
    printed = raw(user.home, first["raw"]["stdout"]).decode().splitlines()
    assert printed[0] == str(user.uid)
    assert printed[1].split()[:2] == ["/sys/class/net/lo", "/bin"]
    assert {one["outcome"]: one["value"] for one in first["measurements"]}["speed"] == 5
    assert containers(user, docker) == ""


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_however_the_head_ends_docker_keeps_nothing(
    user: User, docker: Mapping[str, str], number: signal.Signals, status: int
) -> None:
    words = ("bench", "endless", "-n", "1", "--tools", "container=docker:tools")
    process = started(user, *words, environment=docker)
    process.send_signal(number)
    assert process.wait(60) == status
    wait_until(lambda: sleepers(user) == 0)
    wait_until(lambda: containers(user, docker) == "")


def test_an_image_that_docker_has_not_is_not_downloaded(user: User, docker: Mapping[str, str]) -> None:
    ran = ktrial(user, "bench", "looks", "-n", "1", "--tools", "container=docker:nosuch", environment=docker)
    assert ran.returncode == 1
    assert "next: docker pull nosuch" in ran.stderr


def containers(user: User, docker: Mapping[str, str]) -> str:
    listed = ("/usr/bin/docker", "ps", "--all", "--quiet")
    return user.start(*listed, directory=user.home, environment=docker).stdout


def test_a_distrobox_runs_the_tools_that_are_in_it(user: User, distrobox: Mapping[str, str]) -> None:
    ran = ktrial(user, "bench", "sees", "-n", "2", "--tools", "container=distrobox:box", environment=distrobox)
    assert ran.returncode == 0, ran.stderr
    first, second = newest(user)
    asked = ("podman", "container", "inspect", "--format", "{{.Id}} {{.Image}}", "box")
    found = user.start(*asked, directory=user.home, environment=distrobox).stdout.split()
    told = first["container"]
    assert (told["runtime"], told["box_id"], told["image_id"]) == ("distrobox", found[0], f"sha256:{found[1]}")
    assert "podman version" in told["runtime_version"]
    assert told == second["container"]
    assert raw(user.home, first["raw"]["stdout"]).decode().splitlines() == [
        str(user.uid),
        "/run/host/home",
        "speed: 25",
    ]
    assert {one["outcome"]: one["value"] for one in first["measurements"]}["speed"] == 25


def test_what_a_distrobox_lacks_is_named(user: User, distrobox: Mapping[str, str]) -> None:
    ran = ktrial(user, "bench", "--list", "--json", "--tools", "container=distrobox:box", environment=distrobox)
    listed = {one["benchmark"]: one["why"] for one in json.loads(ran.stdout)["benchmarks"]}
    assert listed["sees"] is None
    assert listed["absent"] == "git is not installed"


def test_a_distrobox_that_is_not_there_is_not_made(user: User, distrobox: Mapping[str, str]) -> None:
    ran = ktrial(user, "bench", "sees", "-n", "1", "--tools", "container=distrobox:nosuch", environment=distrobox)
    assert ran.returncode == 1
    assert "distrobox create --name nosuch" in ran.stderr
