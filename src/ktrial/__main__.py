# SPDX-License-Identifier: Apache-2.0
"""Entry point of `python -m ktrial` and of the wheel's `ktrial` command."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def _find_packages() -> None:
    """Add the paths that `site` would add; the launcher skips `site`, which takes a tenth of the start-up time.

    A checkout has its packages in .venv; the archive and the Debian package have them in lib, by version of Python.
    """
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 (pathlib is slow to load)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    is_checkout = os.path.basename(source) == "src"  # noqa: PTH119
    packages = (".venv/lib", version, "site-packages") if is_checkout else ("lib", version)
    sys.path += [os.path.join(os.path.dirname(source), *packages), source]  # noqa: PTH118, PTH120


def run() -> int:
    """Run the command line with this process's arguments and streams, and return the exit status."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 (stays open until the process exits)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (as above)
    if sys.stdout is None:
        sys.stderr.write("ktrial: standard output is closed; nothing was done\n")
        return 1
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
            signal.signal(number, _interrupt)
    if sys.flags.no_site:
        _find_packages()
    try:
        from ktrial.kit.startup import collect_nothing

        collect_nothing()
        if os.geteuid() == 0 and not _may_stay_root():
            return 5
        from ktrial.cli.main import main

        return main(sys.argv[1:], sys.stdout, sys.stderr)
    except KeyboardInterrupt as stop:  # before any work started
        sys.stderr.write("ktrial: interrupted\n")
        return 128 + (stop.args[0] if stop.args else signal.SIGINT)


def _may_stay_root() -> bool:
    """Return whether this process may continue; replace it with the launcher if it must not stay root."""
    from ktrial.kit.startup import load_msgspec

    load_msgspec()
    from ktrial.agent.launch import launch_anew
    from ktrial.kit.errors import KtrialError

    try:
        launch_anew()
    except KtrialError as error:
        hint = f"\n  next: {error.hint}" if error.hint else ""
        sys.stderr.write(f"ktrial: {error.message}{hint}\n")
        return False
    return True


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    """Handle SIGTERM and SIGHUP as Ctrl-C: clean up, print a message, and end the children too."""
    raise KeyboardInterrupt(number)


def leave(status: int) -> NoReturn:
    from ktrial.kit.startup import end

    end(status)


if __name__ == "__main__":
    leave(run())
