# SPDX-License-Identifier: Apache-2.0
"""How often a trial claims an effect that is not there, and finds one that is.

Run in a checkout that is set up:  .venv/bin/python -m perf.aa [--trials N] [--demos N] [--planted N] [--seed N]

- Simulated demos: `ktrial demo` with recorded noise and disturbances, judged by the shipped judge. A demo makes a
  false claim if its placebo or its copium is better or worse. Limit: 2 %.
- Real A/A trials: the whole engine with a placebo alone and otherwise the defaults, on built-in loads of 0.1 s.
- A planted effect: a setting of a folder that stands for a machine makes a program do a tenth more work. Trials
  whose cap was not limited by the budget must find it with 90 % power.

Nothing on the machine changes, and no root is needed. Exits with status 1 if a limit is missed beyond chance.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from scipy.stats import binomtest

from ktrial.cli.app import App
from ktrial.cli.shared.trial_start import prepare
from ktrial.judge.judge import judge
from ktrial.judge.model.judgement import OutcomeJudgement
from ktrial.judge.model.log import BlockDrawn, Event, OutcomeRule, Protocol, RunEnded, TrialArm, block_order
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.studies.demo.demo import ALPHA, CAP, MARGIN
from ktrial.studies.demo.model import COPIUM, HELP, HURT, PLACEBO
from ktrial.trial.protocol.file import CONTROL, ArmFile, DesignFile, TrialFile, share
from ktrial.trial.protocol.noise_profile import shortened
from ktrial.trial.run.conduct import begin, carry_on, measure_noise, planned
from ktrial.trial.run.prepare import rig_of
from ktrial.trial.run.progress import TrialProgress
from perf.decide import SIZES, profiles
from perf.noise_sources import Generator, Noise, sources, world

OUTCOME = "sim.rate"
#: The effects of the arms of a simulated demo on the logarithm of the rate, about as large as those of huge pages.
EFFECTS: Mapping[str, float] = {CONTROL: 0.0, PLACEBO: 0.0, COPIUM: 0.0, HELP: math.log(2), HURT: math.log(0.6)}
MOST_FALSE_DEMOS, MOST_FALSE_TRIALS, POWER = 0.02, 0.05, 0.90
#: Probability that a limit is missed by chance alone.
CHANCE = 0.001
PLANTED = 0.10
#: Number of trials that other programs may spoil by tuning the same machine, and the wait after each.
MOST_LOST, LOST_WAIT_S = 200, 5.0
#: Built-in loads: benchmark and parameters.
LOADS: Sequence[tuple[str, dict[str, float]]] = (
    ("agent-pagefault", {"duration_s": 0.1, "bytes": 8 << 20}),
    ("agent-memcpy", {"duration_s": 0.1, "bytes": 4 << 20}),
    ("agent-fileio-read-sequential-warm", {"duration_s": 0.1, "bytes": 4 << 20}),
    ("agent-contextswitch-same", {"duration_s": 0.1}),
)
#: The knob that slows the program down, its file, and its value at the start. The program counts for about a tenth of a
#: second, and longer by one percent for each step of the knob above that value.
KNOB, KNOB_FILE, KNOB_FOUND = "vm.swappiness", "proc/sys/vm/swappiness", 60
_WORK = "read value < {file}; i=0; n=$((600 * (100 - {found} + value))); while [ $i -lt $n ]; do i=$((i+1)); done"
_SHELL = "usr/bin/sh"


class Share(NamedTuple):
    """A number of hits among a number of trials."""

    hits: int
    trials: int

    @property
    def text(self) -> str:
        """The share with its exact 95 % interval."""
        if not self.trials:
            return "none of none"
        found = binomtest(self.hits, self.trials).proportion_ci(0.95, method="exact")
        low, high = 100 * found.low, 100 * found.high
        rate = 100 * self.hits / self.trials
        return f"{self.hits} of {self.trials}: {rate:.2f} % (95 % interval {low:.2f} to {high:.2f} %)"

    def beyond(self, limit: float, *, upper: bool) -> bool:
        """Return whether the share misses a limit by more than chance."""
        side: Literal["greater", "less"] = "greater" if upper else "less"
        return bool(self.trials and binomtest(self.hits, self.trials, limit, alternative=side).pvalue < CHANCE)


def demo_protocol(seed: int, profile: Sequence[float]) -> Protocol:
    """Return the protocol of `ktrial demo`."""
    rule = OutcomeRule(direction="higher", role="primary", margin=share(MARGIN, "margin"))
    return Protocol(
        name="demo",
        arms=tuple(TrialArm(name=name, placebo=name == PLACEBO) for name in EFFECTS),
        control=CONTROL,
        outcomes={OUTCOME: rule},
        cap=CAP,
        alpha=ALPHA,
        seed=seed,
        profile={OUTCOME: tuple(profile)} if profile else {},
        until_all_decided=True,
    )


def simulated_demo(protocol: Protocol, noise: Sequence[float]) -> dict[str, OutcomeJudgement]:
    """Run one demo, block by block as the judge asks, on this noise in the order of its runs.

    Return the results by arm.
    """
    log: list[Event] = [protocol]
    run = 0
    looks = {0, 4}
    while True:
        judgement = judge(log)
        step = judgement.next
        if step.action == "stop" or step.block is None:
            return {one.arm: one for one in judgement.judged}
        looks |= {step.look or 0}
        block = step.block
        while block == step.block or block - 1 not in looks:
            order = block_order(protocol.seed, block, step.arms)
            log.append(BlockDrawn(block=block, order=order))
            for arm in order:
                run += 1
                value = math.exp(noise[run] + EFFECTS[arm])
                log.append(RunEnded(run=run, block=block, arm=arm, measurements={OUTCOME: value}))
            block += 1


def simulated_demos(demos: int, generator: Generator, noise: Noise) -> tuple[Share, dict[str, Counter[str]]]:
    """Return how many demos claim an effect of an arm without effect, and the verdicts on each arm."""
    rows = noise(generator, demos, CAP * len(EFFECTS) + 1)
    profile = profiles(noise, generator, demos)
    found: dict[str, Counter[str]] = {arm: Counter() for arm in EFFECTS if arm != CONTROL}
    claims = 0
    for number in range(demos):
        said = simulated_demo(demo_protocol(number, profile[number].tolist()), rows[number].tolist())
        verdicts = {arm: one.verdict or "open" for arm, one in said.items()}
        claims += any(verdicts[arm] in {"better", "worse"} for arm in (PLACEBO, COPIUM))
        for arm, verdict in verdicts.items():
            found[arm][verdict] += 1
    return Share(claims, demos), found


def show_demos(demos: int, seed: int) -> bool:
    """Print the simulated demos; return whether the limit holds."""
    print(f"## Simulated demos, {demos} on each kind of noise; better or worse of placebo or copium is a false claim\n")
    kinds = {f"recorded, sd {sd:.0%}": world(sources(sd)["recorded"], "mixed", SIZES[sd]) for sd in (0.01, 0.03, 0.08)}
    kinds["recorded as it is"] = world(sources(None)["recorded"], "mixed", SIZES[None])
    holds = True
    for place, (name, noise) in enumerate(kinds.items()):
        claims, found = simulated_demos(demos, np.random.default_rng((seed, place)), noise)
        holds &= not claims.beyond(MOST_FALSE_DEMOS, upper=True)
        print(f"{name}: false claims {claims.text}")
        for arm, verdicts in found.items():
            print(f"  {arm:8}" + ", ".join(f"{verdict} {count}" for verdict, count in verdicts.most_common()))
        sys.stdout.flush()
    return holds


class Bench:
    """Real trials on this machine, in a temporary store."""

    def __init__(self, folder: Path, machine_root: Path | None = None) -> None:
        self._store = str(folder / "results.db")
        self._machine_root = machine_root
        #: Reasons of trials that gave nothing because somebody changed the machine. These trials are repeated.
        self.lost: Counter[str] = Counter()

    def trial(self, file: TrialFile) -> tuple[OutcomeJudgement, bool]:
        """Run one trial to its end. Return the judgement of its only arm, and whether its cap has the stated power."""
        while True:
            try:
                return self._once(file)
            except BadInput:
                raise
            except KtrialError as error:
                self.lost[shortened(error.message)] += 1
                if sum(self.lost.values()) > MOST_LOST:
                    raise
                time.sleep(LOST_WAIT_S)

    def _once(self, file: TrialFile) -> tuple[OutcomeJudgement, bool]:
        app = App(may_ask=False, store=self._store, machine_root=self._machine_root)
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                return self._trial(app, file)
        finally:
            app.close()

    @staticmethod
    def _trial(app: App, file: TrialFile) -> tuple[OutcomeJudgement, bool]:
        app.lock_runs()
        ready = prepare(app, file, allow_dangerous=False)
        rig = rig_of(app, ready)
        listen = TrialProgress(app.clock, as_json=False)
        with app.interrupts, listen:
            protocol, foreseen, _ = planned(app, ready, rig, listen, profile=True)
            if foreseen is None:
                measure_noise(app, ready, rig, protocol, listen)
                protocol, foreseen, _ = planned(app, ready, rig, listen, profile=True)
            carried = carry_on(app, begin(app, ready, protocol), ready, rig, listen)
        if carried.interrupted:
            raise KeyboardInterrupt
        (judged,) = [one for one in carried.judgement.judged if one.role == "primary"]
        return judged, foreseen is not None and foreseen.sees_enough


def show_trials(bench: Bench, trials: int) -> bool:
    """Run and print real A/A trials; return whether the limit holds."""
    print(f"\n## Real A/A trials of this machine: {trials}, placebo against control, all defaults, loads of 0.1 s\n")
    everything: Counter[str] = Counter()
    began = time.monotonic()
    for place, (suite, parameters) in enumerate(LOADS):
        verdicts: Counter[str] = Counter()
        blocks = 0
        for _ in range(place, trials, len(LOADS)):
            file = TrialFile(
                name="aa",
                suite=suite,
                parameters=parameters,
                primary=_PRIMARY.get(suite),
                arms={CONTROL: ArmFile(), PLACEBO: ArmFile(placebo=True)},
            )
            judged, _ = bench.trial(file)
            verdicts[judged.verdict or "open"] += 1
            blocks += judged.blocks
        everything += verdicts
        count = sum(verdicts.values())
        said = ", ".join(f"{verdict} {number}" for verdict, number in verdicts.most_common())
        print(f"  {suite:36} {said}; {blocks / max(1, count):.1f} blocks a trial", flush=True)
    refused = everything["not comparable"]
    claims = Share(everything["better"] + everything["worse"], sum(everything.values()) - refused)
    print(f"false claims {claims.text}; {refused} more are not comparable; {time.monotonic() - began:.0f} s")
    return not claims.beyond(MOST_FALSE_TRIALS, upper=True)


_PRIMARY = {"agent-fileio-read-sequential-warm": "bandwidth", "agent-contextswitch-same": "round-trip-p50"}


def make_machine(folder: Path) -> Path:
    """Make a folder that stands for a machine with one knob and a shell."""
    texts = {
        KNOB_FILE: f"{KNOB_FOUND}\n",
        "proc/sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555\n",
        ".ktrial-test-machine": "",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    shell = folder / _SHELL
    shell.parent.mkdir(parents=True)
    shutil.copy("/bin/sh", shell)
    (folder / Path.cwd().relative_to("/")).mkdir(parents=True, exist_ok=True)
    return folder


def planted_file(machine: Path) -> TrialFile:
    """Return the trial of the knob against the unchanged machine."""
    work = _WORK.format(file=shlex.quote(str(machine / KNOB_FILE)), found=KNOB_FOUND)
    return TrialFile(
        name="planted",
        command=("sh", "-c", work),
        primary="user",
        detect=PLANTED,
        design=DesignFile(budget="thorough", settle="0s"),
        arms={CONTROL: ArmFile(), "more": ArmFile(set={KNOB: KNOB_FOUND + round(100 * PLANTED)})},
    )


def show_planted(bench: Bench, file: TrialFile, trials: int) -> bool:
    """Run and print trials of a planted effect; return whether it is found as often as stated."""
    print(f"\n## A planted effect: {trials} trials of a knob that makes a program do {PLANTED:.0%} more work\n")
    found = planned = wrong = missed = 0
    estimates = []
    for _ in range(trials):
        judged, has_power = bench.trial(file)
        wrong += judged.verdict == "better"
        planned += has_power
        found += has_power and judged.verdict == "worse"
        missed += not has_power and judged.verdict != "worse"
        if judged.effect is not None:
            estimates.append(100 * math.expm1(-judged.effect.estimate))
    shares = Share(found, planned)
    print(f"found where the budget holds the planned cap: {shares.text}; stated {POWER:.0%}")
    print(f"called the other way round: {wrong}; too noisy for the budget: {trials - planned}, of them missed {missed}")
    if estimates:
        print(f"estimates: median {np.median(estimates):+.1f} %, from {min(estimates):+.1f} to {max(estimates):+.1f} %")
    return not wrong and not shares.beyond(POWER, upper=False)


def main(argv: Sequence[str]) -> int:
    """Run all three parts."""
    parser = argparse.ArgumentParser(prog="perf.aa")
    parser.add_argument("--trials", type=int, default=200, help="real A/A trials")
    parser.add_argument("--demos", type=int, default=500, help="simulated demos on each kind of noise")
    parser.add_argument("--planted", type=int, default=40, help="trials of a planted effect")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(argv)
    holds = show_demos(asked.demos, asked.seed)
    with tempfile.TemporaryDirectory(prefix="ktrial-aa-") as folder:
        bench = Bench(Path(folder))
        holds &= show_trials(bench, asked.trials)
        machine = make_machine(Path(folder) / "machine")
        on_machine = Bench(Path(folder), machine)
        holds &= show_planted(on_machine, planted_file(machine), asked.planted)
        for why, times in (bench.lost + on_machine.lost).items():
            print(f"made again, {times} times: {why}")
    print("\nall limits hold" if holds else "\na limit was MISSED")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
