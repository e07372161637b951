# SPDX-License-Identifier: Apache-2.0
"""What is published: the same bytes for the same comparison, names and commands that harm nobody."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import msgspec

from ktrial.judge.model.comparison import Comparison
from ktrial.reports.publish import LIST, publication
from ktrial.trial.protocol.read import parse_trial_file
from tests.support.comparisons import HOSTILE, hostile, two_arms
from tests.support.told_trials import a_trial, hostile_trial


def without_charts(made: Comparison) -> dict[str, bytes]:
    """What is published of the first outcome, whose pictures are few."""
    return publication(msgspec.structs.replace(made, outcomes=made.outcomes[:1]))


def test_the_same_comparison_gives_the_same_files() -> None:
    one, two = without_charts(two_arms(4)), without_charts(two_arms(4))
    assert one == two
    assert {"README.md", "comparison.json", "exclusions.json", "reproduce.sh", "charts/forest.svg", LIST} <= set(one)
    listed = dict(line.split("  ", 1)[::-1] for line in one[LIST].decode().splitlines())
    assert listed == {name: hashlib.sha256(data).hexdigest() for name, data in one.items() if name != LIST}
    readme = one["README.md"].decode()
    for address in re.findall(r"!\[[^\]]*\]\(([^)]*)\)", readme):
        assert address in one
    assert msgspec.json.decode(one["comparison.json"], type=Comparison).title == two_arms(4).title


def test_a_file_for_each_run() -> None:
    made = two_arms(4)
    files = publication(msgspec.structs.replace(made, without=None, exclusions=()))
    runs = {name: json.loads(data) for name, data in files.items() if name.startswith("runs/")}
    assert len(runs) == 8
    first = made.outcomes[0].arms[0].points[0]
    found = runs["runs/20261121T214239Z-1f2e3d-" + first.run.rpartition("/")[2] + ".json"]
    assert found["arm"] == "stock"
    assert found["measurements"]["memory-pressure.latency.p50"] == {"value": first.value, "unit": "s"}
    assert len(found["measurements"]) == 5
    assert "exclusions.json" not in files


def test_names_of_runs_harm_nobody() -> None:
    made = two_arms(4)
    names = ["../../etc/passwd", "-rf", ".git", "A", "a", "a/", "x" * 500, HOSTILE]
    arm = made.outcomes[0].arms[0]
    points = tuple(msgspec.structs.replace(arm.points[0], run=name) for name in names)
    outcome = msgspec.structs.replace(made.outcomes[0], arms=(msgspec.structs.replace(arm, points=points),))
    files = publication(msgspec.structs.replace(made, outcomes=(outcome,)))
    runs = [name for name in files if name.startswith("runs/")]
    assert len({name.lower() for name in runs}) == len(names)
    for name in files:
        assert re.fullmatch(r"(?:(?:runs|charts)/)?[A-Za-z0-9_][A-Za-z0-9._-]{0,120}", name), name


def test_commands_stay_what_they_are(tmp_path: Path) -> None:
    commands = (
        "ktrial compare 'a b' \"$HOME\" `id` $(id) ; touch owned",
        f"touch owned #{HOSTILE}",
        "touch owned",
        "ktrial 'unfinished",
        "ktrial show x\ntouch owned",
    )
    made = msgspec.structs.replace(two_arms(4), reproduce=commands, title="x\ntouch owned", outcomes=())
    script = tmp_path / "reproduce.sh"
    script.write_bytes(publication(made)["reproduce.sh"])
    fake = tmp_path / "bin" / "ktrial"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$#" "$@"\n')
    fake.chmod(0o755)
    ran = subprocess.run(
        ["/bin/sh", str(script)],
        cwd=tmp_path,
        env={"PATH": f"{fake.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    first = ["8", "compare", "a b", "$HOME", "`id`", "$(id)", ";", "touch", "owned"]
    assert ran.stdout.splitlines() == [*first, "4", "show", "x", "touch", "owned"]
    assert not (tmp_path / "owned").exists()


def test_with_the_data_beside_it_every_number_is_computed_again_anywhere() -> None:
    made = msgspec.structs.replace(
        two_arms(4), reproduce=("ktrial --store /home/me/r.db compare a.csv b.csv", "touch owned")
    )
    script = publication(made, {"data/raw/x": b"x"})["reproduce.sh"].decode()
    lines = [line for line in script.splitlines() if not line.startswith("#")]
    assert lines == ["set -eu", 'cd "$(dirname "$0")"', "ktrial recheck ."]
    assert "# ktrial compare a.csv b.csv\n" in script


def test_a_trial_without_its_data_is_measured_anew_anywhere() -> None:
    """Nothing in it names what only the author's machine has."""
    made = a_trial().told()
    files = publication(made)
    lines = [line for line in files["reproduce.sh"].decode().splitlines() if not line.startswith("#")]
    assert lines == ["set -eu", 'cd "$(dirname "$0")"', "ktrial trial run trial.toml", "ktrial trial recheck"]
    assert made.trial is not None
    assert made.trial.trial not in files["reproduce.sh"].decode()


def test_a_published_protocol_says_on_which_kernels_its_arms_ran() -> None:
    made = a_trial().told()
    kernels = ["6.1.9, build ab12", "6.12.1, build cd34\nx"]
    arms = [msgspec.structs.replace(one, known={"kernel": kernels[number > 0]}) for number, one in enumerate(made.arms)]
    text = publication(msgspec.structs.replace(made, arms=tuple(arms)))["trial.toml"].decode()
    first, second, *_ = text.splitlines()
    assert first == "# Linux 6.1.9, build ab12: control"
    assert second.startswith("# Linux 6.12.1, build cd34")
    assert second.endswith(": " + ", ".join(one.arm for one in made.arms[1:]))
    assert made.trial is not None
    assert parse_trial_file(text.encode(), "trial.toml") == parse_trial_file(made.trial.text.encode(), "trial.toml")


def test_hostile_text_stays_text() -> None:
    made = hostile()
    files = publication(msgspec.structs.replace(made, outcomes=made.outcomes[:1], without=None))
    files |= {f"trial {name}": data for name, data in publication(hostile_trial()).items()}
    for name, data in files.items():
        assert b"\x1b" not in data, name
        if name.endswith(".svg"):
            assert b"<script" not in data, name
