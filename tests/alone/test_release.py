# SPDX-License-Identifier: Apache-2.0
"""A release is the same bytes each time, and what it holds is installed and runs where there is no compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial import __version__
from release.recipes import RECIPES, fill
from release.wheels import fetch_wheels
from tests.support.alone import the_machine
from tests.support.arm_guest import run_there, unpack_debian
from tests.support.cross_agent import cross_agent
from tests.support.debian import DebianRoot

CHECKOUT = Path(__file__).resolve().parents[2]
CACHE = CHECKOUT / ".setup" / "release"
SUITES = {"12": "bookworm", "13": "trixie"}
MINE = ("--architecture", "x86_64")

pytestmark = [pytest.mark.xdist_group("release"), pytest.mark.timeout(4500)]


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agents of this checkout; those of a release differ in how long they are optimised."""
    folder = tmp_path_factory.mktemp("agents")
    shutil.copy(CHECKOUT / ".setup/bin/ktrial-agent", folder / "ktrial-agent-x86_64")
    shutil.copy(cross_agent(tmp_path_factory.mktemp("cross") / "root"), folder / "ktrial-agent-aarch64")
    return folder


def build(agents: Path, folder: Path, *options: str, **environment: str) -> Path:
    """Build a release from a clone of what is committed."""
    clone, output = folder / "clone", folder / "output"
    subprocess.run(["git", "clone", "--quiet", CHECKOUT, clone], check=True)
    (clone / ".venv").symlink_to(Path(sys.prefix))
    command = [
        clone / "setup/release",
        __version__,
        "--agents",
        agents,
        "--wheels",
        CACHE,
        "--output",
        output,
        *options,
    ]
    subprocess.run([str(word) for word in command], check=True, env=os.environ | environment, cwd=folder)
    return output


@pytest.fixture(scope="module")
def release(agents: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the files of a release."""
    assert os.geteuid() == 0, "this test makes and enters systems of its own: run ./check --full as root"
    return build(agents, tmp_path_factory.mktemp("release"), *MINE)


@pytest.fixture(scope="module", params=sorted(SUITES))
def debian(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DebianRoot]:
    """A clean system with Python and its pip, and no compiler."""
    folder = tmp_path_factory.mktemp("debian") / "root"
    root = DebianRoot.make(folder, "python3-venv", "procps", suite=SUITES[request.param])
    yield root
    subprocess.run(["rm", "--recursive", "--force", "--one-file-system", folder], check=True)


def check_it_runs(debian: DebianRoot, command: str) -> None:
    """Run `doctor` and the demo; the demo has the machine for itself."""
    version = debian.run(command, "--version")
    assert (version.returncode, version.stdout) == (0, f"ktrial {__version__}\n"), version.stdout
    assert debian.run("sh", "-c", "! command -v cc && ! command -v cargo").returncode == 0
    doctor = debian.run(command, "doctor")
    assert doctor.returncode == 0, doctor.stdout
    assert "Debian GNU/Linux 1" in doctor.stdout
    with the_machine():
        demo = debian.run(command, "demo")
    assert demo.returncode == 0, demo.stdout
    assert "placebo" in demo.stdout


def test_built_again_elsewhere_it_is_the_same(release: Path, agents: Path, tmp_path: Path) -> None:
    again = build(agents, tmp_path, *MINE, TZ="Asia/Kathmandu", LC_ALL="C", HOME=str(tmp_path))
    sums = (release / "SHA256SUMS").read_text()
    assert len(sums.splitlines()) == 7
    assert (again / "SHA256SUMS").read_text() == sums
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], check=True, cwd=release)


def test_the_wheel_is_installed_by_pip_and_runs(release: Path, debian: DebianRoot) -> None:
    python = debian.run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").stdout.strip()
    house = debian.folder / "opt/house"
    shutil.copytree(CACHE / "x86_64" / python, house)
    (wheel,) = release.glob("*x86_64.whl")
    shutil.copy(wheel, house)
    assert debian.run("python3", "-m", "venv", "/opt/environment").returncode == 0
    pip = ("/opt/environment/bin/pip", "install", "--no-index", "--find-links", "/opt/house", "ktrial")
    installed = debian.run(*pip)
    assert installed.returncode == 0, installed.stdout
    check_it_runs(debian, "/opt/environment/bin/ktrial")


def test_the_package_is_installed_by_apt_runs_and_goes_without_a_trace(release: Path, debian: DebianRoot) -> None:
    number = next(
        number for number in SUITES if f'VERSION_ID="{number}"' in debian.run("cat", "/etc/os-release").stdout
    )
    (package,) = release.glob(f"*~deb{number}u1_amd64.deb")
    shutil.copy(package, debian.folder / "opt/ktrial.deb")
    installed = debian.run("apt-get", "install", "--yes", "--no-install-recommends", "/opt/ktrial.deb")
    assert installed.returncode == 0, installed.stdout
    assert list((debian.folder / "usr/lib/ktrial/head").rglob("*.pyc")), "modules are compiled when it is installed"
    check_it_runs(debian, "ktrial")
    removed = debian.run("apt-get", "purge", "--yes", "ktrial")
    assert removed.returncode == 0, removed.stdout
    assert not (debian.folder / "usr/lib/ktrial").exists(), removed.stdout


def test_the_archive_runs_from_any_folder_and_root_runs_only_roots_own(release: Path, debian: DebianRoot) -> None:
    (archive,) = release.glob("*-linux-x86_64.tar.zst")
    unpacked = debian.folder / "opt/with a blank"
    unpacked.mkdir()
    subprocess.run(["tar", "--zstd", "-xf", archive, "-C", unpacked], check=True)
    (folder,) = unpacked.iterdir()
    start = f"/opt/with a blank/{folder.name}/ktrial"
    check_it_runs(debian, start)
    user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/tmp")
    as_user = debian.run(*user, start, "knobs", "vm.swappiness")
    assert (as_user.returncode, "vm.swappiness" in as_user.stdout) == (0, True), as_user.stdout
    subprocess.run(["chown", "65534", unpacked], check=True)
    refused = debian.run(start, "--version")
    assert (refused.returncode, "can be changed by someone other than root" in refused.stdout) == (5, True)


@pytest.mark.parametrize("number", sorted(SUITES))
def test_a_package_passes_debians_own_linter(release: Path, number: str) -> None:
    (package,) = release.glob(f"*~deb{number}u1_amd64.deb")
    linted = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "error", package], capture_output=True, text=True, check=False
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_a_checkout_without_a_compiler_starts_and_says_how_the_agent_is_built(debian: DebianRoot) -> None:
    place = debian.folder / "home/user"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", CHECKOUT, place], check=True)
    subprocess.run(["chown", "--recursive", "1234:1234", place], check=True)

    def start(*words: str) -> subprocess.CompletedProcess[str]:
        user = ("setpriv", "--reuid=1234", "--regid=1234", "--clear-groups", "env", "HOME=/home/user")
        return debian.run(*user, *words, directory="/home/user")

    first = start("./ktrial", "--help")
    assert first.returncode == 0, first.stdout
    assert "setting up without the agent, which needs a Rust compiler" in first.stdout
    listed = start("./ktrial", "knobs", "vm.swappiness")
    assert (listed.returncode, listed.stdout.splitlines()[0][:4]) == (0, "knob"), listed.stdout
    refused = start("./ktrial", "doctor")
    step = refused.stdout.splitlines()[-1].partition("next: build it: ")[2]
    assert (refused.returncode, step) == (1, "sh /home/user/setup/prepare.sh /home/user agent"), refused.stdout
    assert "  sudo apt-get install rust" in start(*step.split()).stdout


ON_ARM = """
step() { echo; echo "== $*"; "$@"; echo "== status $?"; }
step uname -m
step ktrial doctor
step ktrial apply vm.swappiness=17 --yes
step cat /proc/sys/vm/swappiness
step ktrial verify
step ktrial revert
step cat /proc/sys/vm/swappiness
step ktrial demo
"""


def test_the_wheel_for_arm_tunes_and_measures_in_a_guest_of_arm(agents: Path, tmp_path: Path) -> None:
    output = build(agents, tmp_path, "--architecture", "aarch64", "--only", "wheel")
    root = tmp_path / "root"
    unpack_debian(root, "trixie")
    site = root / "usr/local/lib/python3.13/dist-packages"
    fetch_wheels(CHECKOUT / "setup/requirements.lock", "aarch64", "3.13", CACHE)
    tags = ("--implementation", "cp", "--python-version", "3.13", "--abi", "cp313", "--abi", "abi3", "--abi", "none")
    machines = [f"--platform=manylinux{one}_aarch64" for one in ("_2_28", "_2_27", "_2_26", "_2_17", "2014")]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--no-index", "--only-binary=:all:"]
    places = [f"--find-links={CACHE / 'aarch64/3.13'}", f"--find-links={output}", f"--target={site}"]
    subprocess.run([*pip, *tags, *machines, *places, "ktrial"], check=True)
    start = (site / "bin/ktrial").read_text(encoding="utf-8").partition("\n")[2]
    (root / "usr/local/bin/ktrial").write_text(f"#!/usr/bin/python3\n{start}", encoding="utf-8")
    (root / "usr/local/bin/ktrial").chmod(0o755)
    console = run_there(root, tmp_path, ON_ARM, limit_s=3600)
    steps = {part.partition("\n")[0]: part for part in console.split("\n== ") if not part.startswith("status")}
    assert console.count("== status 0") == 8, console[-5000:]
    assert "aarch64" in steps["uname -m"]
    swappiness = [part for part in console.split("\n== ") if part.startswith("cat /proc/sys/vm/swappiness\n")]
    assert [part.splitlines()[1] for part in swappiness] == ["17", "60"]
    assert "placebo" in steps["ktrial demo"]


def test_recipes_pass_the_linters_of_their_distributions(tmp_path: Path) -> None:
    """Arch's namcap is not in Debian: makepkg reads the recipe, and its own checks pass."""
    for name in RECIPES:
        recipe = (CHECKOUT / "packaging" / name).read_text(encoding="utf-8")
        sums = {"x86_64": "a" * 64, "aarch64": "b" * 64}
        (tmp_path / Path(name).name).write_text(fill(recipe, __version__, 1_700_000_000, sums), encoding="utf-8")
    linted = subprocess.run(["rpmlint", tmp_path / "ktrial.spec"], capture_output=True, text=True, check=False)
    assert (linted.returncode, " 0 errors," in linted.stdout) == (0, True), linted.stdout
    # makepkg refuses root, asks for pacman, and writes beside the recipe.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        shutil.copy(tmp_path / "PKGBUILD", place)
        subprocess.run(["chown", "--recursive", "65534:65534", place], check=True)
        user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "PACMAN=true", f"HOME={place}")
        read = subprocess.run(
            [*user, "makepkg", "--printsrcinfo"], cwd=place, capture_output=True, text=True, check=False
        )
    assert read.returncode == 0, read.stderr
    assert f"pkgver = {__version__}\n" in read.stdout
