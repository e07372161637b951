# SPDX-License-Identifier: Apache-2.0
"""The environment of the user's own commands: which variables they get from the shell, and what records show."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

#: Variables of the session that every command keeps, even with a clean environment.
KEPT_VARIABLES = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_TYPE",
    "DBUS_SESSION_BUS_ADDRESS",
)
#: Variables recorded with their value; of all others only a salted hash is recorded.
SHOWN_VARIABLES = frozenset(
    (
        *KEPT_VARIABLES,
        *("GLIBC_TUNABLES", "LD_BIND_NOW", "LD_LIBRARY_PATH", "LD_PRELOAD", "MALLOC_ARENA_MAX", "MALLOC_CHECK_"),
        *("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_PERTURB_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_"),
        *("OMP_DYNAMIC", "OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND", "OMP_SCHEDULE", "OMP_WAIT_POLICY"),
        *("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_BLOCKTIME", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
        *("GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "PYTHONHASHSEED", "PYTHONMALLOC", "CUDA_VISIBLE_DEVICES"),
        *("DRI_PRIME", "MANGOHUD", "mesa_glthread", "vblank_mode", "XDG_CURRENT_DESKTOP"),
    )
)
#: Variables pinned for every run, whatever the shell says.
_PINNED = re.compile(r"LC_[A-Z]+|LANG|LANGUAGE|TZ|TMPDIR")
#: Variables that differ between terminals and logins: passed on, but not compared.
_OF_THE_SHELL = re.compile(
    r"_|SHLVL|OLDPWD|PWD|WINDOWID|TERM|TERM_[A-Z_]+|COLORTERM|COLUMNS|LINES|SSH_[A-Z_]+|TMUX|TMUX_PANE|STY|WINDOW"
    r"|[A-Z_]*SESSION_ID|XDG_(?:VTNR|SEAT|SEAT_PATH|SESSION_PATH)|VTE_VERSION|KONSOLE_[A-Z_]+|INVOCATION_ID"
    r"|JOURNAL_STREAM|SYSTEMD_EXEC_PID|MANAGERPID|SUDO_[A-Z]+|DBUS_SESSION_BUS_ADDRESS"
)
_SALTED = re.compile(r"=salted:([0-9a-f]+):")


class PassedEnvironment(NamedTuple):
    """The variables that a command gets from the shell, without the `unreadable` variables.

    Records show the texts in `told` in place of values.
    """

    environment: dict[str, str]
    told: dict[str, str]
    unreadable: tuple[str, ...] = ()


def basic_variables(shell: Mapping[str, str]) -> dict[str, str]:
    """Return only the shell's variables that identify the user and the display."""
    return {name: shell[name] for name in KEPT_VARIABLES if name in shell}


def passed_variables(shell: Mapping[str, str], salt: bytes) -> PassedEnvironment:
    """Return the shell's environment without variables that ktrial sets itself."""
    given = {name: value for name, value in shell.items() if not _PINNED.fullmatch(name)}
    unreadable = tuple(sorted(name for name, value in given.items() if not (_is_text(name) and _is_text(value))))
    given = {name: value for name, value in given.items() if name not in unreadable}
    told = {name: _salted(name, value, salt) for name, value in given.items() if name not in SHOWN_VARIABLES}
    return PassedEnvironment(given, told, unreadable)


def as_recorded(environment: Mapping[str, str], told: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for the record, with hashes in place of possible secrets."""
    return {name: told.get(name, value) for name, value in environment.items()}


def that_counts(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to compare between runs, without variables that differ from terminal to terminal."""
    return {name: value for name, value in environment.items() if not _OF_THE_SHELL.fullmatch(name)}


def of_one_salt(sides: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Return the variables, such as `A=1, B=2`, of each side of a comparison; drop hashes if their salts differ."""
    texts = {name: tuple(side) for name, side in sides.items()}
    salts = {salt for side in texts.values() for text in side for salt in _SALTED.findall(text)}
    if len(salts) < 2:
        return texts

    def visible(text: str) -> str:
        return ", ".join(part for part in text.split(", ") if not _SALTED.search(part))

    return {name: tuple(dict.fromkeys(map(visible, side))) for name, side in texts.items()}


def _salted(name: str, value: str, salt: bytes) -> str:
    """Return a salted hash of the value; its beginning identifies the salt."""
    digest = hmac.new(salt, f"environment {name}={value}".encode(), hashlib.sha256).hexdigest()
    return f"salted:{hashlib.sha256(b'environment' + salt).hexdigest()[:4]}:{digest[:12]}"


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
