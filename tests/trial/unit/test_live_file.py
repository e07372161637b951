# SPDX-License-Identifier: Apache-2.0
"""The table `[live]` of a protocol."""

from __future__ import annotations

import pytest

from ktrial.kit.errors import BadInput
from ktrial.trial.protocol.file import trial_text
from ktrial.trial.protocol.read import parse_trial_file

FILE = """
name = "wsf"

[arms.control]

[arms.case]
set = { "vm.swappiness" = 10 }

[live]
metrics = ["p99_ms:lower=log:/var/log/app.log?match=([0-9.]+) ms&take=p99", "rps:higher=command:./rps"]
covariates = ["load:lower=command:./load"]
guards = { p99_ms = "20%" }
limits = { p99_ms = 250.0 }
period = "60s"
washout = "5s"
for = "2d"
quiet = "22:00-06:00"
switches = 48
blind = true
"""


def test_a_written_table_is_read_as_it_was() -> None:
    file = parse_trial_file(FILE.encode(), "live.toml")
    assert file.live
    assert (file.live.period_s, file.live.for_s) == (60.0, 172_800.0)
    assert parse_trial_file(trial_text(file).encode(), "again.toml") == file


@pytest.mark.parametrize(
    "old, new, told",
    [
        ('"2d"', '"2y"', "live.toml:16:1: for: expected a duration up to 60 days, got '2y'"),
        ("06:00", "26:00", "live.toml:17:1: quiet: expected two different times of day, got '22:00-26:00'"),
        ('"60s"', '"0s"', "live.toml:14:1: period = 0 leaves no time"),
        ('"20%"', '"much"', "live.toml:12:1: guards: expected a percentage above 0 for p99_ms, got 'much'"),
        ("250.0", '"x"', "live.toml:13:1: live.limits"),
        ("= 48", "= 1", "live.toml:18:1: switches: expected 2 or more a day, got 1"),
        ("blind = true", "blinds = true", "live.toml:19:1: live: object contains unknown field `blinds`"),
        ('name = "wsf"', 'name = "wsf"\nsuite = "quick"', "live.toml: cannot combine [live] with suite"),
        ("blind = true", "stay = true", "live.toml: [live] stay requires `placebo = true` in every arm except"),
        ("[arms.control]", "[arms.control]\nmanual = 'x'", "live.toml: arm control makes a change"),
    ],
)
def test_a_fault_is_told_with_file_line_and_value(old: str, new: str, told: str) -> None:
    assert old in FILE
    with pytest.raises(BadInput) as error:
        parse_trial_file(FILE.replace(old, new).encode(), "live.toml")
    assert error.value.message.startswith(told)
    assert error.value.hint
