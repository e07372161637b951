# SPDX-License-Identifier: Apache-2.0
"""Surroundings that would take over root if they could, and a machine whose users have doas or pkexec, not sudo."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.support.user import User

#: Makes a place without sudo and with a writable /etc that leaves no trace. $1 is the user's name, $2 a folder.
_WITHOUT_SUDO = """
set -e
mount --bind /dev/null /usr/bin/sudo
mkdir "$2/upper" "$2/work"
mount -t overlay -o "lowerdir=/etc,upperdir=$2/upper,workdir=$2/work" overlay /etc
"""
_DOAS = """
printf 'permit nopass %s %s as root\\n' "$3" "$1" > /etc/doas.conf
chmod 600 /etc/doas.conf
"""
_PKEXEC = """
mount --bind /dev/null /usr/bin/doas
mkdir -p /run/dbus
mount -t tmpfs tmpfs /run/dbus
rule='polkit.addRule(function(a, s) { if (s.user == "%s") return polkit.Result.YES; });'
printf "$rule" "$1" > /etc/polkit-1/rules.d/1.rules
chmod 755 /etc/polkit-1/rules.d
dbus-daemon --system --fork --nopidfile
/usr/lib/polkit-1/polkitd --no-debug &
until dbus-send --system --print-reply --dest=org.freedesktop.PolicyKit1 / org.freedesktop.DBus.Peer.Ping; do
    sleep 0.1
done > /dev/null 2>&1
"""
#: Starts a child of a child, because pkexec needs a parent that is not the first process.
_START = """
shift 3
sh -c '"$@"; exit $?' sh "$@" &
wait $!
"""

#: Programs that ktrial might look for in PATH, and programs that its launcher runs.
_PROGRAMS = """
sysctl mkswap swapon modprobe python python3 sh
cmp cp chmod mv mkdir find getent id readlink setpriv stat sudo env cut
"""


def evil_folder(folder: Path, marks: Path) -> Path:
    """Return a folder with programs, Python modules and a library, all of which record who uses them."""
    evil = folder / "evil"
    (evil / "ktrial").mkdir(parents=True)
    for name in _PROGRAMS.split():
        program = evil / name
        program.write_text(f'#!/bin/sh\necho "{name} $(/usr/bin/id -u)" >>{marks}\nexec /usr/bin/{name} "$@"\n')
        program.chmod(0o755)
    note = f"import os\nwith open({str(marks)!r}, 'a') as marks:\n    print(__name__, os.geteuid(), file=marks)\n"
    for module in ("click.py", "msgspec.py", "sitecustomize.py", "startup.py", "ktrial/__init__.py", "ktrial/cli.py"):
        (evil / module).write_text(note)
    (evil / "startup.sh").write_text(f'echo "startup.sh $(/usr/bin/id -u)" >>{marks}\n')
    source = evil / "preload.c"
    source.write_text(
        "#include <stdio.h>\n#include <unistd.h>\n"
        "__attribute__((constructor)) static void note(void)\n{\n"
        f'    FILE *marks = fopen("{marks}", "a");\n'
        '    if (marks) { fprintf(marks, "preload %d\\n", (int) geteuid()); fclose(marks); }\n}\n'
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", evil / "preload.so", source], check=True)
    subprocess.run(["chmod", "--recursive", "a+rX", evil], check=True)
    return evil


def start_without_sudo(
    user: User, asker: str, *command: str, environment: Mapping[str, str] | None = None, doas_option: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command as this user on a system without sudo, where `asker` gives root without a password."""
    space = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--propagation", "private")
    script = _WITHOUT_SUDO + {"doas": _DOAS, "pkexec": _PKEXEC}[asker] + _START
    variables = [f"{name}={value}" for name, value in (environment or {}).items()]
    started = [*user.become(), *(["/usr/bin/env", *variables] if variables else []), *command]
    folder = tempfile.mkdtemp(prefix="ktrial-etc-")
    try:
        return subprocess.run(
            [*space, "sh", "-c", script, "sh", user.name, folder, doas_option, *started],
            cwd=user.checkout,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        shutil.rmtree(folder)


def surroundings_in(evil: Path, elsewhere: Path) -> dict[str, str]:
    """Return variables that lead to `evil_folder`, and to another home."""
    return {
        "PATH": f"{evil}:/usr/bin:/bin",
        "LD_PRELOAD": str(evil / "preload.so"),
        "LD_LIBRARY_PATH": str(evil),
        "PYTHONPATH": str(evil),
        "PYTHONHOME": str(evil),
        "PYTHONSTARTUP": str(evil / "startup.py"),
        "ENV": str(evil / "startup.sh"),
        "BASH_ENV": str(evil / "startup.sh"),
        "HOME": str(elsewhere),
        "TMPDIR": str(elsewhere),
        **{f"XDG_{name}_HOME": str(elsewhere) for name in ("CONFIG", "CACHE", "STATE", "DATA")},
        "XDG_RUNTIME_DIR": str(elsewhere),
    }
