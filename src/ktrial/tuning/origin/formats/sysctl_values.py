# SPDX-License-Identifier: Apache-2.0
"""All values below /proc/sys as `grep -rs "" /proc/sys` prints them: path, colon, a line of the file."""

from __future__ import annotations

from collections.abc import Mapping

_ROOT = "/proc/sys/"
#: What is counted or drawn anew at each boot, and the kernel's own name: no defaults.
_NO_DEFAULTS = (
    *("fs.aio-nr", "fs.dentry-state", "fs.file-nr", "fs.inode-nr", "fs.inode-state", "fs.quota.", "kernel.ns_last_pid"),
    *("crypto.fips_version", "kernel.osrelease", "kernel.pty.nr", "kernel.random.", "kernel.version", "kernel.tainted"),
    *("net.netfilter.nf_conntrack_count", "net.ipv4.tcp_fastopen_key", "kernel.hostname"),
)


def read_sysctl_values(data: bytes) -> dict[str, str]:
    """Name -> value, lines of one file joined by a semicolon; lines that are none of /proc/sys are left out."""
    found: dict[str, str] = {}
    for line in data.decode(errors="replace").splitlines():
        path, colon, value = line.partition(":")
        if not colon or not path.startswith(_ROOT):
            continue
        name = path.removeprefix(_ROOT).replace(".", "\0").replace("/", ".").replace("\0", "/")
        if not name.startswith(_NO_DEFAULTS):
            text = " ".join(value.split())
            found[name] = f"{found[name]}; {text}" if name in found else text
    return found


def sysctl_differences(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Name -> both values, where they differ; None where a kernel has no such sysctl."""
    names = sorted(before.keys() | after.keys())
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}
