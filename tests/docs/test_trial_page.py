# SPDX-License-Identifier: Apache-2.0
"""The protocol that docs/trial.md explains is one that can be read, and nothing that can stand in one is missing."""

from __future__ import annotations

import re
from pathlib import Path

from ktrial.trial.protocol.file import ArmFile, DesignFile, TrialFile
from ktrial.trial.protocol.read import parse_trial_file

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "trial.md").read_text(encoding="utf-8")
#: `ktrial blame` and `ktrial search` write these.
OF_BLAME = {"front", "part", "race", "screen"}


def protocol() -> str:
    found = re.search(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_explained_protocol_is_one() -> None:
    trial = parse_trial_file(protocol().encode(), "docs/trial.md")
    assert set(trial.arms) == {"control", "wsf500", "case", "bore", "placebo"}


def test_every_key_is_explained() -> None:
    written = set(re.findall(r"^#?\s*([a-z_]+) = ", protocol(), re.MULTILINE)) | {"arms", "design", "gates", "limits"}
    written |= {"command", "metrics", "cap"}  # beside what they stand in for
    wanted = {name for one in (TrialFile, DesignFile, ArmFile) for name in one.__struct_fields__}
    assert wanted - written == OF_BLAME
    for name in ("command", "metrics", "cap"):
        assert re.search(rf"`?{name}\b", protocol()), name
