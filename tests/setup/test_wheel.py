# SPDX-License-Identifier: Apache-2.0
"""The wheel carries a static agent, and pip, pipx and uv install a `ktrial` that finds it."""

import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.fake_checkout import CHECKOUT
from tests.support.long import IS_LONG

TOOLS = Path(sys.executable).parent
#: The agent as the set-up of a checkout builds it. That of a release takes a minute more: `./check --full` makes it.
QUICKLY: dict[str, str | Path] = {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}

# One worker builds the wheel once for all of them.
pytestmark = pytest.mark.xdist_group("wheel")


def call(*command: str | Path, cwd: Path | None = None, **environment: str | Path) -> str:
    """Run a command to its end; its output, or its complaint as the failure of the test."""
    changed = os.environ | {name: str(value) for name, value in environment.items()}
    done = subprocess.run(command, cwd=cwd, env=changed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ktrial's wheel, built from a copy of the sources, and those of everything it depends on."""
    folder = tmp_path_factory.mktemp("house")
    source = tmp_path_factory.mktemp("source") / "ktrial"
    source.mkdir()
    for name in ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy2(CHECKOUT / name, source)
    for name in ("agent", "docs", "src"):
        shutil.copytree(CHECKOUT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "target"))
    # Cargo goes on from what ./check compiled already.
    built = CHECKOUT / "agent/target"
    call(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-build-isolation",
        "--wheel-dir",
        folder,
        source,
        cwd=None,
        CARGO_TARGET_DIR=built,
        **({} if IS_LONG else QUICKLY),
    )
    return folder


def wheel_of(house: Path) -> Path:
    (wheel,) = house.glob("ktrial-*.whl")
    return wheel


def interpreter_of(program: bytes) -> bool:
    """Whether an ELF file of 64 bits asks for a dynamic loader (a program header of type PT_INTERP, 3)."""
    assert program[:5] == b"\x7fELF\x02"
    offset, size, count = *struct.unpack_from("<Q", program, 32), *struct.unpack_from("<HH", program, 54)
    return any(struct.unpack_from("<I", program, offset + number * size)[0] == 3 for number in range(count))


def test_the_wheel_holds_a_small_static_agent_the_catalog_and_the_manual(house: Path) -> None:
    wheel = wheel_of(house)
    assert "-py3-none-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        agent = archive.getinfo("ktrial/_bin/ktrial-agent")
        assert agent.external_attr >> 16 & 0o111
        assert agent.file_size < (6_000_000 if IS_LONG else 8_000_000)
        assert not interpreter_of(archive.read(agent))
    built_in = {path.relative_to(CHECKOUT / "src").as_posix() for path in (CHECKOUT / "src").rglob("*.toml")}
    assert built_in <= set(names)
    assert [name for name in names if name.endswith("data/share/man/man1/ktrial.1")]
    assert [name for name in names if name.endswith("licenses/LICENSE")]


def installed_by_pip(house: Path, home: Path) -> Path:
    call(TOOLS / "python", "-m", "venv", home / "environment")
    python = home / "environment/bin/python"
    call(python, "-m", "pip", "install", "--no-index", "--find-links", house, "ktrial")
    return home / "environment/bin"


def installed_by_pipx(house: Path, home: Path) -> Path:
    options = f"--pip-args=--find-links={house}"
    places = {"PIPX_HOME": home / "pipx", "PIPX_BIN_DIR": home / "bin", "PIPX_MAN_DIR": home / "man"}
    call(TOOLS / "pipx", "install", "--backend", "pip", options, wheel_of(house), HOME=home, **places)
    assert (home / "man/man1/ktrial.1").exists()
    return home / "bin"


def installed_by_uv(house: Path, home: Path) -> Path:
    places = {"UV_TOOL_DIR": home / "uv", "UV_TOOL_BIN_DIR": home / "bin", "UV_CACHE_DIR": home / "cache"}
    options = ("--offline", "--no-index", "--python", TOOLS / "python", "--find-links", house)
    call(TOOLS / "uv", "tool", "install", *options, "ktrial", HOME=home, **places)
    return home / "bin"


@pytest.fixture(params=[installed_by_pip, installed_by_pipx, installed_by_uv])
def installed(request: pytest.FixtureRequest, house: Path, tmp_path: Path) -> Path:
    """The `bin` with an installed ktrial."""
    place = request.param(house, tmp_path)
    assert isinstance(place, Path)
    return place


def test_an_installed_ktrial_runs_and_finds_its_agent(installed: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    # Nothing of the checkout and no other agent can be found from here.
    environment: dict[str, str | Path] = {"HOME": empty, "PATH": "/usr/bin:/bin", "PYTHONPATH": ""}
    assert call(installed / "ktrial", "--version", cwd=empty, **environment).startswith("ktrial ")
    assert "vm.swappiness" in call(installed / "ktrial", "knobs", "vm.swappiness", cwd=empty, **environment)
    assert "cpu." in call(installed / "ktrial", "facts", cwd=empty, **environment)
    assert "_KTRIAL_COMPLETE" in call(installed / "ktrial", "completion", "bash", cwd=empty, **environment)
