# SPDX-License-Identifier: Apache-2.0
"""The examples for agents, each carried out with a scripted model in place of a language model."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.tree import FakeRoot

EXAMPLES = Path(__file__).resolve().parents[3] / "examples/agents"
SCHEDULER = Path(__file__).resolve().parents[2] / "support/fake_scheduler.c"
MODEL = [sys.executable, str(EXAMPLES / "scripted_model.py")]
LIMIT_S = 280
#: Its number is the value of a knob: what is planted is found.
BENCHMARK = """
name = "reads"
what = "Reads a knob."
argv = ["cat", "{}"]
directory = "/"
[[metric]]
name = "value_us"
direction = "lower"
match = '([0-9]+)'
"""


def on(root: FakeRoot) -> str:
    """The command of ktrial on the fake machine, where trials may run."""
    root.write("/.ktrial-test-machine", "")
    for program in ("/usr/bin/cat", "/usr/bin/echo", str(EXAMPLES / "forge_judge.sh")):
        target = root.folder / program.lstrip("/")  # the agent looks for programs below its root
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(program, target)
    return f"{sys.executable} -m ktrial --machine-root {shlex.quote(str(root.folder))}"


def answers(folder: Path, *lines: str) -> Path:
    """What the scripted model says."""
    file = folder / "answers"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def test_a_tuner_applies_only_what_the_judge_proves(root: FakeRoot, tmp_path: Path) -> None:
    folder = Path(os.environ["HOME"]) / ".config/ktrial/benchmarks"
    folder.mkdir(parents=True)
    (folder / "reads.toml").write_text(BENCHMARK.format(root.folder / "proc/sys/vm/swappiness"))
    said = answers(
        tmp_path,
        '{"settings": ["vm.swappiness=90"], "why": "a bad idea"}',
        '{"settings": ["vm.page-cluster=0"], "why": "not allowed"}',
        '{"settings": ["vm.swappiness=30"], "why": "a good idea"}',
    )
    server = f"{on(root)} mcp --allow-writes --knob vm.swappiness"
    words = [sys.executable, str(EXAMPLES / "tuner.py"), "--server", server, "--suite", "reads", "--blocks", "7"]
    done = subprocess.run(
        [*words, "--", *MODEL, str(said)], capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3, done.stdout
    bad, outside, good = done.stdout.splitlines()
    assert bad == "1: vm.swappiness=90: worse"
    assert outside.startswith("2: vm.page-cluster=0: refused: agents may not write vm.page-cluster here")
    assert good.startswith("3: vm.swappiness=30: better; applied as transaction ")
    assert root.read("/proc/sys/vm/swappiness") == "30\n"
    assert root.read("/proc/sys/vm/page-cluster") == "3\n"
    told = [json.loads(line) for line in said.with_name("answers.asked").read_text().splitlines()]
    assert [len(one["tried"]) for one in told] == [0, 1, 2, 3]
    assert told[0]["suggestions"]["candidates"]
    assert root.run("revert", "--all").status == 0
    assert root.read("/proc/sys/vm/swappiness") == "60\n"


def test_a_campaign_judges_the_commands_of_a_model(root: FakeRoot, tmp_path: Path) -> None:
    said = answers(tmp_path, "echo 61", "echo 40", "echo 41")
    environment = {**os.environ, "KTRIAL": on(root), "AB": "--metric value_us:lower=([0-9]+) --primary value"}
    done = subprocess.run(
        [str(EXAMPLES / "campaign_loop.sh"), "loop", "2", "echo 60", *MODEL, str(said)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "echo 40\n"  # the third candidate had no decision left
    assert "decision 1 of 2" in done.stderr
    assert said.with_name("answers.asked").read_text().splitlines() == ["echo 60 ", "echo 60 ", "echo 40 "]


class FakeForge:
    """What scx_forge_agent does with its workload: attach a candidate, run the command, check, detach, read a number.

    Its trials run on the fake machine, which has a lock of its own.
    """

    def __init__(self, root: FakeRoot, folder: Path) -> None:
        self.state = folder / "state"
        self.value = folder / "value"
        self.state.write_text("disabled\n")
        self.candidate = folder / "target/scx_forge"
        self.candidate.parent.mkdir()
        self.environment = {
            **os.environ,
            "SCX_STATE": str(self.state),
            "FAKE_VALUE": str(self.value),
            "FORGE_STATE": str(folder / "kept"),
            "FORGE_DECISIONS": "3",
            "KTRIAL": on(root),
            "SUDO": "",
        }

    def wait_for(self, state: str) -> None:
        end = time.monotonic() + 20
        while self.state.read_text().strip() != state:
            assert time.monotonic() < end
            time.sleep(0.02)

    def stop(self) -> None:
        """End what runs from the candidate's file, by the id of each."""
        for link in Path("/proc").glob("[0-9]*/exe"):
            try:
                is_ours = link.samefile(self.candidate)
            except OSError:
                continue
            if is_ours:
                os.kill(int(link.parent.name), signal.SIGINT)
        self.wait_for("disabled")

    def measure(self, value: int) -> float:
        """Build a candidate whose workload takes so long, and measure it."""
        self.candidate.unlink(missing_ok=True)
        define = f'-DVALUE="{value}\\n"'
        subprocess.run(["cc", "-O", define, "-o", str(self.candidate), str(SCHEDULER)], check=True)
        attached = subprocess.Popen([str(self.candidate)], env=self.environment)
        self.wait_for("enabled")
        command = f"{EXAMPLES / 'forge_judge.sh'} {self.candidate} cat {self.value}"
        try:
            done = subprocess.run(
                ["sh", "-c", command],
                env=self.environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT_S,
            )
            assert done.returncode == 0, done.stderr
            assert self.state.read_text() == "enabled\n"
            assert self.value.read_text() == f"{value}\n"
        finally:
            self.stop()
            attached.wait(10)
        return float(done.stdout)


def test_the_judge_behind_the_scheduler_agent_keeps_only_what_is_proven(root: FakeRoot, tmp_path: Path) -> None:
    forge = FakeForge(root, tmp_path)
    assert forge.measure(60) == 1000  # round 0
    assert forge.measure(60) == 1000  # the same again is no improvement
    assert forge.measure(45) == 999
    assert forge.measure(50) == 999  # better than the first, but not than the best
