# SPDX-License-Identifier: Apache-2.0
"""The collection as Ansible's own tools see it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ktrial import __version__
from ktrial.fleet import collection
from ktrial.fleet.ansible_collections.ktrial.tuning.plugins.module_utils import arguments
from tests.support.playbooks import environment_of

ROOT = Path(__file__).parents[3]
FOLDER = collection.path() / "ansible_collections/ktrial/tuning"
MODULES = sorted(path.stem for path in (FOLDER / "plugins/modules").glob("*.py"))


def ansible(folder: Path, *words: str, **more: str) -> str:
    """Run one of Ansible's programs and return what it printed."""
    environment = {**os.environ, **environment_of(folder), **more}
    argv = [sys.executable, "-m", "ansible", *words]
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_documentation_of_each_module_is_about_its_options(tmp_path: Path) -> None:
    assert {f"{name}.py" for name in MODULES} == {path.name for path in (FOLDER / "plugins/action").glob("*.py")}
    found = json.loads(ansible(tmp_path, "doc", "--json", *(f"ktrial.tuning.{name}" for name in MODULES)))
    for name in MODULES:
        told = found[f"ktrial.tuning.{name}"]
        options: dict[str, dict[str, Any]] = getattr(arguments, name.upper())
        assert told["doc"]["options"].keys() == options.keys(), name
        for option, spec in options.items():
            of_option = told["doc"]["options"][option]
            assert {key: of_option.get(key) for key in spec} == spec, (name, option)
        assert f"ktrial.tuning.{name}:" in told["examples"]
        assert told["return"]


def test_roles_say_what_they_take(tmp_path: Path) -> None:
    for role in sorted(path.name for path in (FOLDER / "roles").iterdir()):
        told = json.loads(ansible(tmp_path, "doc", "--type", "role", "--json", f"ktrial.tuning.{role}"))
        options = told[f"ktrial.tuning.{role}"]["entry_points"]["main"]["options"]
        defaults = re.findall(r"^(\w+):", (FOLDER / "roles" / role / "defaults/main.yml").read_text(), re.MULTILINE)
        assert sorted(options) == sorted(defaults)


def test_the_wheel_has_all_of_it_and_the_version_is_that_of_ktrial() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = project["package-data"]["ktrial.fleet"]
    packed = {path for pattern in patterns for path in collection.path().glob(pattern)}
    ours = {path for path in FOLDER.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert packed == ours
    assert f"version: {__version__}\n" in (FOLDER / "galaxy.yml").read_text()


def test_it_is_built_and_installed_as_any_other_collection(tmp_path: Path) -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "ktrial.fleet.collection"], capture_output=True, text=True, check=True
    ).stdout
    assert printed == f"{collection.path()}\n"
    ansible(tmp_path, "galaxy", "collection", "build", str(FOLDER))
    (built,) = tmp_path.glob("ktrial-tuning-*.tar.gz")
    there = {"ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "installed")}
    ansible(tmp_path, "galaxy", "collection", "install", "--offline", built.name, **there)
    listed = ansible(tmp_path, "doc", "--list", "ktrial.tuning", **there)
    assert [line.split()[0] for line in listed.splitlines()] == [f"ktrial.tuning.{name}" for name in MODULES]
    assert (tmp_path / "installed/ansible_collections/ktrial/tuning/README.md").exists()


def test_the_linter_has_nothing_to_say(tmp_path: Path) -> None:
    """It is not published alone, so two rules of Ansible's own registry do not apply."""
    linter = Path(sys.executable).with_name("ansible-lint")
    if not linter.exists():
        pytest.fail("ansible-lint is missing: ./check installs it from setup/requirements-dev.lock")
    copy = tmp_path / "ansible_collections/ktrial/tuning"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    page = (ROOT / "docs/playbooks.md").read_text(encoding="utf-8")
    books = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (copy / "playbooks").mkdir()
    for number, book in enumerate(books):
        (copy / f"playbooks/of_the_page_{number}.yml").write_text(book)
    environment = {
        **os.environ,
        **environment_of(tmp_path),
        "ANSIBLE_COLLECTIONS_PATH": str(tmp_path),
        "PATH": f"{linter.parent}:{os.environ['PATH']}",
    }
    argv = [str(linter), "--offline", "--strict", "--skip-list", "galaxy[no-changelog],galaxy[no-repository]", "."]
    done = subprocess.run(argv, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
