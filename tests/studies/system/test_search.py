# SPDX-License-Identifier: Apache-2.0
"""`ktrial search` on this machine: a program with a planted optimum, through the real agent, store and judge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.studies.system.test_blame import home, run  # noqa: F401 (a fixture)
from tests.support.terminal import KTRIAL
from tests.support.tree import FakeRoot

PROGRAM = """
import math, random, sys
workers, mode, conf = sys.argv[1:]
with open({count!r}, "ab") as file:
    file.write(b".")
    random.seed(file.tell())
size = int(open(conf).read().split("=")[1])
if size > 90:
    sys.exit("too large")
gain = 0.4 * math.exp(-(math.log(int(workers) / 16) / 0.8) ** 2) + 0.2 * (mode == "fast")
print("rate", 100 * math.exp(gain + random.gauss(0, 0.01)))
print("memory", 10 * math.exp(0.1 * math.log(int(workers)) + random.gauss(0, 0.01)))
"""
SPACE = """
name = "made"
files = { conf = "conf.in" }
constraints = ["workers <= size"]

[[dimension]]
placeholder = "workers"
values = [1, 4, 16, 64]
default = 1

[[dimension]]
placeholder = "mode"
values = ["slow", "fast"]
default = "slow"

[[dimension]]
placeholder = "size"
values = [20, 64, 100]
default = 64
"""
METRIC = "rate_per_s:higher=rate ([0-9.]+)"


MEMORY = ("--primary", "rate", "--metric", "memory_b:lower=memory ([0-9.]+)")


def words(home: Path, *more: str) -> list[str]:  # noqa: F811
    """The command line of a search of the planted space."""
    (home / "space.toml").write_text(SPACE)
    (home / "conf.in").write_text("size={size}\n")
    program = home / "program.py"
    program.write_text(PROGRAM.format(count=str(home / "runs")))
    own = [sys.executable, "-S", str(program), "{workers}", "{mode}", "{conf}"]
    given = ["--seed", "3", "--settle", "0s", "--metric", METRIC]
    return ["search", "space.toml", *given, *more, "--", *own]


def test_a_killed_search_goes_on_and_confirms_the_planted_optimum(home: Path) -> None:  # noqa: F811
    argv = words(home, "--budget", "1h", "--json", "-o", "page.html")
    killed = subprocess.Popen([*KTRIAL, *argv], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ)
    assert killed.stderr is not None
    for line in killed.stderr:
        if b".2-race" in line:
            break
    time.sleep(1.5)
    killed.kill()
    killed.wait()
    killed.stderr.close()
    time.sleep(0.2)
    status, out, err = run(*argv)
    assert status == 0, err
    assert "resuming search-made-" in err
    found = json.loads(out.splitlines()[-1])["search"]
    assert found["ending"] == "confirmed", found["reason"]
    assert found["winner"]["mode"] == "fast"
    assert found["winner"]["workers"] == 16
    assert found["effect"]["low"] > 0
    page = (home / "page.html").read_text()
    assert "Every point that the search tried" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    names = [one["trial"] for one in json.loads(run("trial", "list", "--json")[1])["trials"]]
    assert sum(".1-race" in name for name in names) == sum(".2-race" in name for name in names) == 1
    assert sorted(names) == sorted(found["trials"])
    for name in names:
        assert run("trial", "recheck", name)[0] == 0, name


def test_a_front_of_rate_and_memory_is_confirmed_by_one_trial(home: Path) -> None:  # noqa: F811
    argv = words(home, *MEMORY, "--also", "memory_b", "--budget", "1h", "-o", "page.html", "--json")
    status, out, err = run(*argv)
    assert status == 0, err
    found = json.loads(out.splitlines()[-1])["search"]
    assert found["ending"] == "confirmed", found["reason"]
    assert list(found["directions"]) == ["command.rate", "command.memory_b"]
    confirmed = [one for one in found["front"] if one["state"] == "confirmed"]
    assert {one["changes"].get("mode") for one in confirmed} == {"fast"}
    assert any(one["verdicts"] == {"command.rate": "better", "command.memory_b": "worse"} for one in confirmed)
    assert "The points to choose from" in (home / "page.html").read_text()
    assert run("trial", "recheck", found["confirmed_by"])[0] == 0
    entries = [one["entry"] for one in json.loads(run("ledger", "--json")[1])["entries"]]
    assert {one["arm"] for one in entries if one["verdict"] == "better"} == {one["arm"] for one in confirmed}


def test_a_search_that_began_on_another_kernel_is_refused(home: Path) -> None:  # noqa: F811
    argv = words(home, "--budget", "1h")
    killed = subprocess.Popen([*KTRIAL, *argv], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ)
    assert killed.stderr is not None
    for line in killed.stderr:
        if b".1-race" in line:
            break
    killed.kill()
    killed.wait()
    killed.stderr.close()
    (state,) = (home / ".local/state/ktrial/searches").glob("*.json")
    document = json.loads(state.read_text())
    state.write_text(json.dumps({**document, "kernel": "5.4.0-made"}))
    status, _, err = run(*argv)
    assert (status, "it began on kernel 5.4.0-made" in " ".join(err.split())) == (4, True), err
    state.write_text("{}")
    status, _, err = run(*argv)
    assert (status, "cannot read a stored search" in " ".join(err.split())) == (2, True), err


INERT = """
name = "memory"

[[dimension]]
knob = "vm.swappiness"
low = 0
high = 200

[[dimension]]
knob = "vm.dirty_ratio"
low = 5
high = 40
"""


def test_a_knob_without_effect_on_this_machine_is_left_out(root: FakeRoot, tmp_path: Path) -> None:
    root.write("/proc/meminfo", "MemTotal: 1000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n")
    space = tmp_path / "space.toml"
    space.write_text(INERT)
    ran = root.run("search", str(space), "--suite", "memory-pressure", "--dry-run")
    assert ran.status == 0, ran.err
    shown = " ".join(ran.err.split())
    assert "left out: vm.swappiness: it controls swapping, and this machine has no swap" in shown
    assert "vm.dirty_ratio 5 to 40" in shown


READER = """
import math, random
with open({count!r}, "ab") as file:
    file.write(b".")
    random.seed(file.tell())
value = int(open({path!r}).read())
print("rate", 100 * math.exp(0.3 * (value == 32) + random.gauss(0, 0.01)))
"""
CLAMPED = """
name = "clamped"

[[dimension]]
knob = "queue:read_ahead_kb@{device}"
values = [33, 256]
"""


@pytest.mark.root
@pytest.mark.usefixtures("real_machine")
def test_a_value_that_the_kernel_clamps_is_searched_as_what_it_took(home: Path) -> None:  # noqa: F811
    """A queue takes no read-ahead that is not a whole number of pages: 33 becomes 32."""
    path = next(path for path in sorted(Path("/sys/block").glob("loop*/queue/read_ahead_kb")))
    before = path.read_text()
    (home / "space.toml").write_text(CLAMPED.format(device=path.parts[3]))
    program = home / "program.py"
    program.write_text(READER.format(count=str(home / "runs"), path=str(path)))
    argv = ["search", "space.toml", "--seed", "3", "--settle", "0s", "--metric", METRIC, "--budget", "1h", "--json"]
    status, out, err = run(*argv, "--", sys.executable, "-S", str(program))
    assert status == 0, err
    found = json.loads(out.splitlines()[-1])["search"]
    name = f"queue:read_ahead_kb@{path.parts[3]}"
    assert [one["reason"] for one in found["history"] if one["state"] == "refused"] == [f"the kernel took {name} = 32"]
    assert (found["ending"], found["winner"]) == ("confirmed", {name: 32})
    assert path.read_text() == before


@pytest.mark.parametrize(
    "more,old,new,words_of_error",
    [
        ((), "{ conf = ", "{ other = ", "no command uses the file other"),
        ((), 'placeholder = "size"', 'placeholder = "unused"', "nothing uses the placeholder unused"),
        ((), "conf.in", "gone.in", "cannot read the template"),
        (("--budget", "0s"), "", "", "leaves no time for a run"),
        (("--sampler", "gp"), "", "", "PyTorch is not installed"),
        (("--also", "nosuch"), "", "", "unknown outcome: 'nosuch'"),
        (("--also", "rate"), "", "", "command.rate is both primary and secondary"),
        (("--also", "memory_b", "--also", "memory_b", *MEMORY), "", "", "--also names memory_b twice"),
    ],
)
def test_what_cannot_be_searched_is_said_before_anything_runs(
    home: Path,  # noqa: F811
    more: tuple[str, ...],
    old: str,
    new: str,
    words_of_error: str,
) -> None:
    argv = words(home, *more)
    (home / "space.toml").write_text(
        SPACE.replace(old, new, 1).replace('["workers <= unused"]', "[]").replace("workers <= size", "workers <= 64")
        if old
        else SPACE
    )
    status, _, err = run(*argv)
    assert status in {1, 2}
    assert words_of_error in " ".join(err.split())
    assert not (home / "runs").exists()


def test_a_budget_too_small_is_refused_with_the_budget_needed(home: Path) -> None:  # noqa: F811
    argv = words(home, "--budget", "0.5s")
    command = argv[argv.index("--") + 1 :]
    (home / "bench.conf").write_text("size=64\n")
    fixed = [word.format(workers=1, mode="slow", conf=home / "bench.conf") for word in command]
    assert run("bench", "-n", "1", "--metric", METRIC, "--", *fixed)[0] == 0
    status, out, err = run(*argv)
    # A machine whose first run was quick learns it from the first race.
    assert (status, out == "") in {(0, False), (2, True)}
    assert "use --budget" in " ".join((out + err).split())
