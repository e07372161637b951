# SPDX-License-Identifier: Apache-2.0
"""A minimal Debian in a folder with the essential packages, entered as the root of a mount namespace.

This does not use chroot, because the kernel allows no user namespaces inside a chroot.
"""

import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SUITE = "bookworm"

# Mounts end with the namespace, and so does every process that a command leaves behind. The folder is mounted on
# itself, so that the system in it has a root file system like any other.
_MOUNT = """
set -e
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"
mount --rbind /dev "$0/dev"
mount -t tmpfs tmpfs "$0/run"
cd "$0"
exec "$@"
"""
# This is one process, which needs no program of the new root: the new root may have no umount.
_ENTER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
DETACH = 2
if libc.pivot_root(b".", b".") or libc.umount2(b".", DETACH):
    sys.exit(f"the root cannot be entered: {os.strerror(ctypes.get_errno())}")
os.chdir("/")
os.execv("/usr/bin/env", ["env", "-i", *sys.argv[1:]])
"""

# Files with which this machine reaches its package registries. They are copied into the root, and not kept there.
_NETWORK_FILES = ("/etc/resolv.conf", "/etc/pip.conf")
_NETWORK_VARIABLES = (
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_DEFAULT_TIMEOUT",
)
_AUTHORITIES = "usr/local/share/ca-certificates"


@dataclass(frozen=True)
class DebianRoot:
    """The folder that contains the system."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, *packages: str, architectures: str = "amd64", suite: str = SUITE) -> "DebianRoot":
        """Unpack a minimal Debian and these packages. Without packages this takes a quarter of a minute and 250 MB."""
        include = ("--include=" + ",".join(packages),) if packages else ()
        sources = _package_sources(suite)
        subprocess.run(
            [
                "mmdebstrap",
                "--quiet",
                "--variant=apt",
                f"--architectures={architectures}",
                '--aptopt=Acquire::Check-Valid-Until "false"',
                *include,
                suite,
                folder,
                *(("-",) if sources else ()),
            ],
            input=sources,
            text=True,
            check=True,
        )
        root = cls(folder)
        root._open_the_network()
        return root

    def _open_the_network(self) -> None:
        for name in _NETWORK_FILES:
            if Path(name).exists():
                shutil.copy(name, self.folder / name.lstrip("/"))
        authorities = Path("/") / _AUTHORITIES
        if authorities.is_dir():
            shutil.copytree(authorities, self.folder / _AUTHORITIES, dirs_exist_ok=True)
        if (self.folder / "usr/sbin/update-ca-certificates").exists():
            self.run("update-ca-certificates")
        # sudo complains if the machine's own name cannot be resolved.
        hosts = self.folder / "etc/hosts"
        hosts.write_text(f"127.0.0.1 localhost {socket.gethostname()}\n", encoding="utf-8")
        cargo = Path.home() / ".cargo/config.toml"
        if cargo.exists():
            (self.folder / "root/.cargo").mkdir(parents=True, exist_ok=True)
            shutil.copy(cargo, self.folder / "root/.cargo")

    def run(self, *command: str, directory: str = "/", time_limit_s: int = 600) -> subprocess.CompletedProcess[str]:
        """Run a command there as root, with its own environment and no input; the output includes stderr."""
        variables = {
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "CI": "true",
            **{name: os.environ[name] for name in _NETWORK_VARIABLES if name in os.environ},
        }
        return subprocess.run(
            [
                *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"),
                *("sh", "-c", _MOUNT, str(self.folder), sys.executable, "-c", _ENTER),
                *(f"{name}={value}" for name, value in variables.items()),
                *("sh", "-c", 'cd "$0" && exec "$@"', directory, *command),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=time_limit_s,
            check=False,
        )


def _package_sources(suite: str) -> str | None:
    """Return this machine's sources if it runs the same Debian, or else None: mmdebstrap knows Debian's mirror."""
    if f"VERSION_CODENAME={suite}" not in Path("/etc/os-release").read_text():
        return None
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("debian.*"))]
    return "\n".join(file.read_text() for file in files if file.exists())
