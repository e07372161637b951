# SPDX-License-Identifier: Apache-2.0
"""What a machine lacks is named, with the exact command of its own package manager."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.fake_checkout import CHECKOUT, FakeCheckout

BASICS = (
    "sh awk cat chmod cp cut date env find flock grep id ln mkdir mktemp mv readlink rm sed sha256sum sleep sort stat"
    " tr xargs"
)
ALL = ("python", "rust", "cc", "libc")


@pytest.fixture
def bare(tmp_path: Path) -> FakeCheckout:
    """A checkout on a machine that has the basic tools only."""
    checkout = FakeCheckout.make(tmp_path)
    shutil.rmtree(checkout.tools)
    checkout.tools.mkdir()
    for name in BASICS.split():
        found = shutil.which(name, path="/usr/bin:/bin")
        assert found is not None
        (checkout.tools / name).symlink_to(found)
    checkout.environment["PATH"] = str(checkout.tools)
    return checkout


def ordinary_user(checkout: FakeCheckout) -> None:
    (checkout.tools / "id").unlink()
    checkout.add_tool("id", "#!/bin/sh\necho 1000\n")


def explain(
    checkout: FakeCheckout, words: tuple[str, ...], shell: str = "dash", system_root: Path | None = None
) -> str:
    """What explain_missing says on a machine with these tools."""
    setup = CHECKOUT / "setup"
    program = shutil.which(shell.split(maxsplit=1)[0])
    assert program is not None
    script = (
        f". {setup}/common.sh; . {setup}/tools.sh; system_root='{system_root or ''}'; explain_missing {' '.join(words)}"
    )
    return checkout.start(program, *shell.split()[1:], "-euc", script).stderr


@pytest.mark.parametrize(
    "manager,command",
    [
        ("apt-get", "sudo apt-get install python3 python3-venv rustc-web cargo-web gcc libc6-dev"),
        ("dnf", "sudo dnf install python3 rust cargo gcc glibc-static"),
        ("pacman", "sudo pacman -S --needed python rust gcc glibc"),
        ("zypper", "sudo zypper install python311 rust cargo gcc glibc-devel-static"),
        ("brew", "brew install python rust gcc"),
    ],
)
@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_the_machines_own_command_is_named(bare: FakeCheckout, manager: str, command: str, shell: str) -> None:
    bare.add_tool(manager, "#!/bin/sh\n")
    said = explain(bare, ALL, shell)
    assert f"  {command}\n" in said
    for meaning in ("Python 3.11 or newer", "Rust compiler from 1.85", "C compiler", "static C library"):
        assert meaning in said


def test_a_launcher_on_a_bare_machine_names_all_and_starts_nothing(bare: FakeCheckout) -> None:
    ordinary_user(bare)
    bare.add_tool("dnf", "#!/bin/sh\n")
    started = bare.start("/bin/sh", bare.root / "ktrial", "--version")
    assert started.returncode == 1
    assert started.stdout == ""
    assert "  sudo dnf install python3 rust cargo gcc glibc-static\n" in started.stderr
    assert not (bare.root / ".venv").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_without_a_compiler_all_but_the_agent_is_set_up() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        folder = Path(place)
        checkout = _without_rust(folder)
        fake = (checkout.tools / "python3").read_text()
        checkout.add_tool("python3", fake.replace(os.path.realpath(sys.executable), "/usr/bin/python3"))
        folder.chmod(0o755)
        subprocess.run(["chown", "--recursive", "65534:65534", folder], check=True)
        user = ("/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        start = (*user, checkout.root / "ktrial", "--version")
        first = checkout.start(*start)
        assert first.returncode == 0, first.stderr
        assert "argument:--version" in first.stdout
        note, step, _ = first.stderr.splitlines()
        assert note.startswith("ktrial: setting up without the agent, which needs a Rust compiler")
        again = checkout.start(*start)
        assert (again.returncode, again.stderr, again.stdout) == (0, "", first.stdout)
        named = checkout.start(*user, *step.removeprefix("  next: to build it, run").split())
        assert named.returncode == 1
        assert "  sudo dnf install rust cargo gcc glibc-static\n" in named.stderr
        # The next start after the compiler has come builds the agent.
        for name in ("cargo", "rustc"):
            shutil.move(folder / "put-away" / name, checkout.tools)
        checkout.add_tool("cc", "#!/bin/sh\n")
        built = checkout.start(*start)
        assert "building the agent" in built.stderr
        assert os.access(checkout.root / ".setup/bin/ktrial-agent", os.X_OK)
        assert checkout.start(*start).stderr == ""


def test_root_needs_the_agent_and_is_not_set_up_without(tmp_path: Path) -> None:
    checkout = _without_rust(tmp_path)
    started = checkout.start("/bin/sh", checkout.root / "setup/prepare.sh", checkout.root, "agent")
    assert started.returncode == 1
    assert "a Rust compiler from 1.85 with cargo" in started.stderr


def test_packages_that_pip_cannot_install_are_told_with_the_next_step(tmp_path: Path) -> None:
    """As without a network, or on a disk that is full: pip says which."""
    checkout = FakeCheckout.make(tmp_path)
    python = (checkout.tools / "python3").read_text()
    fails = "echo 'OSError: [Errno 28] No space left on device' >&2; exit 1"
    checkout.add_tool("python3", python.replace("echo pip ", f"{fails}; echo pip "))
    started = checkout.start()
    assert started.returncode == 1
    told = started.stderr.partition("No space left on device\n")[2]
    assert "ktrial: cannot install the Python packages of setup/requirements.lock: pip's messages are above\n" in told
    assert "  next: check the network and that " in told
    assert not (checkout.root / ".setup/stamp").exists()


def _without_rust(folder: Path) -> FakeCheckout:
    """A checkout of an ordinary user on a machine with Python and without any compiler."""
    checkout = FakeCheckout.make(folder)
    (folder / "put-away").mkdir()
    for name in ("cargo", "rustc"):
        shutil.move(checkout.tools / name, folder / "put-away" / name)
    checkout.add_tool("dnf", "#!/bin/sh\n")
    checkout.environment["PATH"] = f"{checkout.tools}:{_links_without_rust(folder)}"
    return checkout


def test_without_a_known_manager_every_command_is_named(bare: FakeCheckout) -> None:
    said = explain(bare, ("libc",))
    for command in ("apt-get install libc6-dev", "dnf install glibc-static", "pacman -S --needed glibc"):
        assert command in said
    assert "zypper install glibc-devel-static" in said


def test_an_image_system_is_sent_to_brew_or_a_container(bare: FakeCheckout, tmp_path: Path) -> None:
    (tmp_path / "image/run").mkdir(parents=True)
    (tmp_path / "image/run/ostree-booted").touch()
    bare.add_tool("dnf", "#!/bin/sh\n")
    said = explain(bare, ALL, system_root=tmp_path / "image")
    assert "  brew install python rust gcc\n" in said
    assert "distrobox create" in said
    assert "toolbox" in said
    assert "sudo dnf install python3 rust cargo gcc glibc-static" in said


@pytest.mark.parametrize(
    "version,words",
    [("1.63.0", "rust"), ("1.84.1", "rust"), ("1.85.0", ""), ("1.96.0-nightly", ""), ("2.0.0", "")],
)
def test_an_old_compiler_counts_as_missing(tmp_path: Path, version: str, words: str) -> None:
    checkout = FakeCheckout.make(tmp_path)
    checkout.add_rustc(version)
    path = f"{checkout.tools}:{_links_without_rust(tmp_path)}"
    missing = checkout.start("/bin/sh", checkout.root / "setup/missing.sh", checkout.root, PATH=path)
    assert [word for word in missing.stdout.split() if word == "rust"] == words.split()


@pytest.mark.parametrize("beside", [False, True])
def test_the_compiler_of_rustup_is_the_same_from_every_start(tmp_path: Path, beside: bool) -> None:
    """Found without PATH, and before the distribution's own, as in a login shell."""
    checkout = FakeCheckout.make(tmp_path)
    rustup = tmp_path / ".cargo/bin"
    rustup.mkdir(parents=True)
    for name in ("cargo", "rustc"):
        shutil.copy2(checkout.tools / name, rustup / name)
    script = f". {CHECKOUT}/setup/common.sh; . {CHECKOUT}/setup/tools.sh; find_rust"
    links = str(_links_without_rust(tmp_path))
    found = checkout.start("/bin/sh", "-euc", script, PATH=f"{checkout.tools}:{links}" if beside else links)
    assert found.stdout.split() == [str(rustup / "cargo"), str(rustup / "rustc")]


def _links_without_rust(tmp_path: Path) -> Path:
    folder = tmp_path / "links"
    folder.mkdir()
    for name in BASICS.split():
        (folder / name).symlink_to(shutil.which(name, path="/usr/bin:/bin") or "")
    return folder


def _policy(candidates: dict[str, str], search: str = "") -> str:
    cases = "".join(f"    'policy {name}') echo '  Candidate: {version}' ;;\n" for name, version in candidates.items())
    return f"#!/bin/sh\ncase \"$*\" in\n{cases}    search*) printf '{search}' ;;\nesac\n"


@pytest.mark.parametrize(
    "policy,packages",
    [
        (_policy({"rustc": "1.63.0+dfsg1-2", "rustc-web": "1.85.0+dfsg3-1~deb12u3"}), "rustc-web cargo-web"),
        (_policy({"rustc": "1.85.0+dfsg3-1"}), "rustc cargo"),
        (
            _policy({"rustc": "1.75.0+dfsg0ubuntu1"}, "rustc-1.80 - Rust\\nrustc-1.89 - Rust\\nrustc-1.85 - Rust\\n"),
            "rustc-1.89 cargo-1.89",
        ),
        (_policy({"rustc": "(none)"}), "rustc-web cargo-web"),
    ],
)
def test_apt_names_the_compiler_that_is_new_enough(bare: FakeCheckout, policy: str, packages: str) -> None:
    bare.add_tool("apt-get", "#!/bin/sh\n")
    bare.add_tool("apt-cache", policy)
    assert f"  sudo apt-get install {packages}\n" in explain(bare, ("rust",))


def test_root_on_debian_installs_what_is_missing(bare: FakeCheckout, tmp_path: Path) -> None:
    (bare.tools / "id").unlink()
    bare.add_tool("id", "#!/bin/sh\necho 0\n")
    (bare.tools / "stat").unlink()
    bare.add_tool("stat", "#!/bin/sh\necho 0\n")
    bare.add_tool("apt-cache", _policy({"rustc": "1.63.0", "rustc-web": "1.96.0"}))
    bare.add_tool("apt-get", f'#!/bin/sh\necho "$*" >>{tmp_path}/apt\n')
    started = bare.start("/bin/sh", bare.root / "ktrial", "--version")
    update, install = (tmp_path / "apt").read_text().splitlines()
    assert update.startswith("update")
    assert install.startswith("install --yes")
    assert install.endswith("ca-certificates python3 python3-venv rustc-web cargo-web gcc libc6-dev")
    # The fake apt-get brought nothing: that is said, not passed over.
    assert started.returncode == 1
    assert "these are missing" in started.stderr


def test_what_an_agent_for_another_architecture_needs_is_named_with_its_commands(bare: FakeCheckout) -> None:
    ordinary_user(bare)
    bare.add_tool("pacman", "#!/bin/sh\n")
    script = bare.root / "setup/agent.sh"
    started = bare.start("/bin/sh", script, bare.root, "aarch64")
    assert started.returncode == 1
    assert "  - a Rust compiler from 1.85 with cargo: sudo pacman -S --needed rust\n" in started.stderr
    linker = "a C compiler for linking, aarch64-linux-gnu-gcc: sudo pacman -S --needed aarch64-linux-gnu-gcc"
    assert f"  - {linker}\n" in started.stderr
    armv7 = bare.start("/bin/sh", script, bare.root, "armv7").stderr
    assert "  - a C compiler for linking, arm-linux-gnueabihf-gcc\n" in armv7, "Arch packs none"
    assert "there is no agent for riscv64" in bare.start("/bin/sh", script, bare.root, "riscv64").stderr


def test_an_agent_for_a_release_is_static_and_holds_no_folder_of_this_machine(tmp_path: Path) -> None:
    checkout = FakeCheckout.make(tmp_path)
    (tmp_path / "sysroot/lib/rustlib/aarch64-unknown-linux-gnu/lib").mkdir(parents=True)
    rustc = (checkout.tools / "rustc").read_text()
    checkout.add_tool("rustc", rustc.replace("case $1 in", f"case $1 in\n    --print) echo {tmp_path}/sysroot ;;"))
    checkout.add_tool("aarch64-linux-gnu-gcc", "#!/bin/sh\n")
    cargo = (checkout.tools / "cargo").read_text()
    told = f'printf "%s" "$CARGO_ENCODED_RUSTFLAGS" >{tmp_path}/flags\nmkdir -p'
    checkout.add_tool("cargo", cargo.replace("mkdir -p", told))
    script = ("/bin/sh", checkout.root / "setup/agent.sh", checkout.root, "aarch64")
    built = checkout.start(*script, RUSTFLAGS="-C target-cpu=native")
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "flags").read_text().split("\x1f") == [
        "-Ctarget-feature=+crt-static",
        f"--remap-path-prefix={tmp_path}/.cargo=/cargo",
        f"--remap-path-prefix={checkout.root}=/ktrial",
    ]
    assert not [line for line in checkout.done() if line.startswith("RUSTFLAGS")]
    assert os.access(checkout.root / ".setup/bin/ktrial-agent-aarch64", os.X_OK)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_python_of_another_user_that_cannot_be_reached_is_named() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        checkout = Path(place)
        checkout.chmod(0o755)
        shutil.copytree(CHECKOUT / "setup", checkout / "setup")
        (checkout / ".setup").mkdir()
        (checkout / ".venv" / "bin").mkdir(parents=True)
        (checkout / ".venv" / "bin" / "python").symlink_to("/root/.pyenv/bin/python3.99")
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        prepare = ["/bin/sh", str(checkout / "setup" / "prepare.sh"), place, "run"]
        done = subprocess.run([*words, *prepare], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "a Python that you cannot reach: /root/.pyenv/bin/python3.99" in done.stderr
    assert "Rust" not in done.stderr
