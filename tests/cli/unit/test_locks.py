# SPDX-License-Identifier: Apache-2.0
"""The lock files pin and hash everything, and hold what pyproject.toml asks for."""

import re
import tomllib

from packaging.version import Version

from tests.support.fake_checkout import CHECKOUT

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]


def pinned(lock: str) -> dict[str, str]:
    """Name -> version of a lock file; fails on an entry without a hash."""
    entries: dict[str, str] = {}
    for entry in re.split(r"\n(?=[a-z])", (CHECKOUT / "setup" / lock).read_text()):
        if entry.startswith("#"):
            continue
        head = re.match(r"([a-z0-9-]+)==([^ ]+) \\\n +--hash=sha256:[0-9a-f]{64}", entry)
        assert head, f"{lock}: not pinned with a hash: {entry!r}"
        entries[head[1]] = head[2]
    return entries


def test_the_run_lock_holds_what_the_project_depends_on() -> None:
    wanted = {re.split(r"[><=]", dependency)[0]: dependency for dependency in PROJECT["dependencies"]}
    lock = pinned("requirements.lock")
    for name, dependency in wanted.items():
        assert Version(lock[name]) >= Version(re.split(r">=|,", dependency)[1])


def test_the_development_lock_agrees_with_the_run_lock() -> None:
    run, development = pinned("requirements.lock"), pinned("requirements-dev.lock")
    assert {"hypothesis", "mypy", "pytest", "pytest-xdist", "ruff"} <= development.keys()
    assert {name: run[name] for name in run.keys() & development.keys()} == {
        name: development[name] for name in run.keys() & development.keys()
    }
