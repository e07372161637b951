# SPDX-License-Identifier: Apache-2.0
"""Which devices a rule is about, and which programs are named."""

from __future__ import annotations

import pytest

from ktrial.tuning.origin.formats import udev


@pytest.mark.parametrize(
    "condition,name,wanted",
    [
        ('KERNEL=="sd*|nvme*"', "nvme0n1", True),
        ('KERNEL=="sd*|nvme*"', "vda", False),
        ('KERNEL!="sd*"', "sda", False),
        ('KERNEL!="sd*"', "vda", True),
        ('SUBSYSTEM=="block"', "vda", True),
    ],
)
def test_a_rule_may_match_by_name(condition: str, name: str, wanted: bool) -> None:
    (rule,) = udev.parse(f'{condition}, ATTR{{queue/scheduler}}="none"\n', "r").rules
    assert rule.may_match("KERNEL", name) is wanted


@pytest.mark.parametrize(
    "program,named",
    [
        ("/bin/sh -c 'echo 1 > /sys/x'", True),
        ("/usr/sbin/sysctl -w vm.swappiness=1", True),
        ("/lib/systemd/systemd-sysctl --prefix=/net/ipv4/conf/$name", False),
        ("/usr/bin/logger hello", False),
    ],
)
def test_programs_that_may_set_something_are_named(program: str, named: bool) -> None:
    assert bool(udev.parse(f'ACTION=="add", RUN+="{program}"\n', "r").unread) is named
