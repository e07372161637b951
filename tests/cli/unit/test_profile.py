# SPDX-License-Identifier: Apache-2.0
"""The formats offered on the command line are those that can be read, and files of profiles are taken by trials."""

from __future__ import annotations

import json
from typing import get_args

from ktrial.cli.verbs.profile import FORMATS
from ktrial.tuning.origin.formats.sniff import READERS, Format
from tests.support.tree import FakeRoot


def test_all_formats_are_offered() -> None:
    assert set(FORMATS) == set(get_args(Format)) == set(READERS)


def test_a_trial_takes_the_settings_of_a_file_but_none_that_depend_on_the_machine(root: FakeRoot) -> None:
    file = root.folder / "mine.toml"
    text = 'name = "mine"\nsummary = "Mine."\n[[setting]]\nknob = "vm.swappiness"\nvalue = 10\n'
    file.write_text(text)
    assert '"vm.swappiness" = "10"' in root.run("try", str(file), "--dry-run").out
    file.write_text(f'{text}when = "os.android == false"\n')
    ran = root.run("try", "--profile", str(file), "--dry-run")
    assert (ran.status, ran.out) == (2, "")
    assert "the value of vm.swappiness depends on the machine" in ran.err
    assert "then name the profile mine" in ran.err


def test_an_import_writes_its_file_and_the_json_that_is_asked_for(root: FakeRoot) -> None:
    script = root.folder / "tweaks.sh"
    script.write_text("sysctl -w vm.swappiness=10\n")
    output = root.folder / "tweaks.toml"
    ran = root.run("profile", "import", str(script), "-o", str(output), "--json")
    assert json.loads(ran.out)["profile"]["name"] == "tweaks"
    assert 'knob = "vm.swappiness"' in output.read_text()
    plain = root.run("profile", "import", str(script), "-o", str(output), "--force")
    assert (plain.status, plain.out) == (0, "")
