# SPDX-License-Identifier: Apache-2.0
"""The programs that build a kernel: their names, their versions, and whether the tree supports them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ktrial.kernels.build.make import run
from ktrial.kernels.build_record import Tool, Toolchain
from ktrial.kit.errors import BadInput, KtrialError, Refused

_CLANG = re.compile(r"clang(-\d{1,3})?")
_GCC = re.compile(r"(?:[\w]+-)*gcc(-\d{1,3})?")
_VERSION = re.compile(r"(?<!\d)\d++(?:\.\d++)+")
_MINIMUM = "scripts/min-tool-version.sh"
_LIMIT_S = 30.0
_APT = Path("/usr/bin/apt-get")
#: Program -> the Debian package that contains it.
PACKAGES = {
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "perl": "perl",
    "cpio": "cpio",
    "ccache": "ccache",
    "sccache": "sccache",
    "distcc": "distcc",
    "pahole": "dwarves",
    "rustc": "rustc-web",
    "bindgen": "bindgen",
    "rpmbuild": "rpm",
    "dpkg-buildpackage": "dpkg-dev",
    "dpkg-source": "dpkg-dev",
    "dpkg-checkbuilddeps": "dpkg-dev",
    "dh_listpackages": "debhelper",
    "fakeroot": "fakeroot",
    "makepkg": "makepkg",
    "pacman": "pacman-package-manager",
    "bsdtar": "libarchive-tools",
    "rsync": "rsync",
    "depmod": "kmod",
}
#: Programs of LLVM, by make's variable.
_LLVM = {
    "LD": "ld.lld",
    "AR": "llvm-ar",
    "NM": "llvm-nm",
    "OBJCOPY": "llvm-objcopy",
    "OBJDUMP": "llvm-objdump",
    "STRIP": "llvm-strip",
    "READELF": "llvm-readelf",
}
_CONFIGURES = ("make", "flex", "bison")
_ALWAYS = (*_CONFIGURES, "bc", "perl")
#: Tool -> its name in the tree's script, and the symbol that requires it.
_CHECKED = {"rustc": ("rustc", "RUST"), "bindgen": ("bindgen", "RUST"), "pahole": ("pahole", "DEBUG_INFO_BTF")}


def choose(cc: str) -> Toolchain:
    """Return the toolchain of the compiler `cc`. Raise BadInput if `cc` is missing, or is neither gcc nor clang."""
    path = shutil.which(cc)
    if path is None:
        raise BadInput(f"{cc}: no such program", hint="install the compiler, or give its path with --cc")
    name = Path(cc).name
    if match := _CLANG.fullmatch(name):
        folder = cc.removesuffix(name)
        suffix = match[1] or _suffix(path, folder)
        programs = {variable: f"{folder}{program}{suffix}" for variable, program in _LLVM.items()}
        host = {"HOSTCC": cc, "HOSTCXX": f"{folder}clang++{suffix}", "HOSTLD": programs["LD"], "HOSTAR": programs["AR"]}
        return Toolchain(kind="clang", variables={"LLVM": "1", "CC": cc, **programs, **host})
    if not _GCC.fullmatch(name):
        raise BadInput(f"--cc {cc}: expected gcc or clang", hint="for example  --cc gcc-13")
    return Toolchain(kind="gcc", variables={"CC": cc, "HOSTCC": cc} if "-linux-" not in name else {"CC": cc})


def _suffix(path: str, folder: str) -> str:
    """Return the suffix of LLVM's programs, such as `-16`; empty if they are installed without a suffix."""
    release = re.search(r"llvm-(\d+)", str(Path(path).resolve()))
    if release is None or shutil.which(f"{folder}{_LLVM['LD']}") is not None:
        return ""
    suffix = f"-{release[1]}"
    return suffix if shutil.which(f"{folder}{_LLVM['LD']}{suffix}") is not None else ""


def check_toolchain(toolchain: Toolchain, tree: Path) -> None:
    """Raise KtrialError if a program that Kconfig runs is not installed, or too old for the tree."""
    _check_here("configuring", (*_CONFIGURES, *_programs_of(toolchain)))
    versions(toolchain, {}, tree)


def check_programs(toolchain: Toolchain, symbols: Mapping[str, str], more: tuple[str, ...] = ()) -> None:
    """Raise KtrialError if a program that the build runs is not installed."""
    wanted = [tool for tool, (_, symbol) in _CHECKED.items() if symbols.get(symbol) == "y"]
    _check_here("building", (*_ALWAYS, *_programs_of(toolchain), *more, *wanted))


def _programs_of(toolchain: Toolchain) -> list[str]:
    return [word for variable, word in toolchain.variables.items() if variable != "LLVM"]


def _check_here(what: str, needed: Iterable[str]) -> None:
    missing = [name for name in dict.fromkeys(needed) if shutil.which(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise KtrialError(f"{what} needs {', '.join(missing)}, which {verb} not installed", hint=install_step(missing))


def versions(toolchain: Toolchain, symbols: Mapping[str, str], tree: Path) -> tuple[Tool, ...]:
    """Return each tool with its version and the tree's minimum. Raise Refused if a tool is too old."""
    script = "llvm" if toolchain.kind == "clang" else "gcc"
    asked = [("compiler", toolchain.variables["CC"], script)]
    asked.append(("linker", toolchain.variables.get("LD", "ld"), "llvm" if toolchain.kind == "clang" else "binutils"))
    asked += [(tool, tool, name) for tool, (name, symbol) in _CHECKED.items() if symbols.get(symbol) == "y"]
    found = []
    for role, program, name in asked:
        said = _version_of(program)
        least = _least(tree, name)
        match = _VERSION.search(re.sub(r"\([^)]*\)", "", said)) or _VERSION.search(said)
        version = match[0] if match else ""
        tool = Tool(role=role, program=program, version=version, said=said, minimum=least)
        if least is not None and version and _number(version) < _number(least):
            raise Refused(
                f"{program} {version} is too old: this tree needs {least} or newer ({_MINIMUM})",
                hint="use a newer compiler with --cc" if role == "compiler" else f"install a newer {program}",
            )
        found.append(tool)
    return tuple(found)


def _least(tree: Path, name: str) -> str | None:
    """Return the minimum from the tree's own script; None if there is no script or it does not know the tool."""
    if not (tree / _MINIMUM).is_file():
        return None
    try:
        said = run(["sh", str(tree / _MINIMUM), name], {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, None, _MINIMUM)
    except KtrialError:
        return None
    word = said.decode(errors="replace").strip()
    return word if _VERSION.fullmatch(word) else None


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _version_of(program: str) -> str:
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = error.strerror if isinstance(error, OSError) else f"no answer within {_LIMIT_S:g} s"
        raise KtrialError(f"cannot run {program} --version: {why}", hint=f"reinstall {_package(program)}") from None
    return done.stdout.decode(errors="replace").strip().partition("\n")[0]


def install_step(programs: Sequence[str]) -> str:
    """Return the apt-get command that installs `programs`; on a machine without apt-get, name them instead."""
    packages = " ".join(dict.fromkeys(map(_package, programs)))
    if _APT.exists():
        return f"apt-get install {packages}"
    return f"install {', '.join(programs)} (in Debian's packages {packages})"


def _package(program: str) -> str:
    name = Path(program).name
    if name.startswith("ld.lld"):
        return "lld" + name.removeprefix("ld.lld")
    if name.startswith("llvm-"):
        suffix = re.search(r"-\d+$", name)
        return "llvm" + (suffix[0] if suffix else "")
    return PACKAGES.get(name, name.replace("clang++", "clang"))
