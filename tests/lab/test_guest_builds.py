# SPDX-License-Identifier: Apache-2.0
"""Kernels that are built for the arms of a trial and for the tiers of a ladder, of Debian's sources, in exact guests.

The lowest one is the same in both. What was built stays in the cache of the long tests.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.guests.system.sources import BUILDS, whole_archive, whole_tree
from tests.support.guest_trials import ktrial
from tests.support.small_kernel import write_fragment

pytestmark = [pytest.mark.timeout(7200), pytest.mark.xdist_group("kernel-builds")]
MEASURED = ("--suite", "wakeups-working", "--primary", "lateness-p99", "--seed", "1", "--memory", "256MiB")


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(BUILDS))


@pytest.fixture
def sources(tmp_path: Path) -> tuple[str, ...]:
    """What all kernels are built of."""
    small = write_fragment(tmp_path / "small.config", "SMP")
    return ("--tree", str(whole_archive()), "--common", str(small))


def slices(patch: Path) -> Path:
    """Slices of the scheduler that are nine times as long, as a patch."""
    file = "kernel/sched/fair.c"
    before = (whole_tree() / file).read_text()
    assert before.count("= 700000ULL;") == 2, "the slice, and what it is scaled from"
    old, new = (text.splitlines(keepends=True) for text in (before, before.replace("= 700000ULL;", "= 6300000ULL;")))
    patch.write_text("".join(difflib.unified_diff(old, new, f"a/{file}", f"b/{file}")))
    return patch


def told(*words: str) -> dict[str, Any]:
    """The comparison that comes of a command."""
    done = ktrial(*words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])["comparison"]
    return found


def there(*words: str) -> list[dict[str, Any]]:
    """The records of the kernels that a command would take from the cache; none is to be built."""
    done = ktrial(*words, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "to be built" not in done.stderr
    images = [Path(line.rpartition(" ")[2]) for line in done.stderr.splitlines() if "/built-" in line]
    return [json.loads((image.parents[3] / "ktrial-build.json").read_text()) for image in images]


def test_a_patch_of_the_scheduler_and_a_symbol_are_built_and_found(sources: tuple[str, ...], tmp_path: Path) -> None:
    """A thread that works waits for longer with longer slices, and with timers that wait for the next tick."""
    arms = ("--patch", str(slices(tmp_path / "slices.patch")), "--set", "HIGH_RES_TIMERS=n")
    words = ("kernel", "trial", *sources, *arms, *MEASURED, "--budget", "7")
    found = told(*words)
    kernels = {one["arm"]: one["known"]["kernel"] for one in found["arms"]}
    assert set(kernels) == {"control", "HIGH_RES_TIMERS-n", "slices"}
    (primary,) = [one for one in found["outcomes"] if one["role"] == "primary"]
    verdicts = {one["arm"]: one["verdict"] for one in primary["contrasts"]}
    assert verdicts == {"HIGH_RES_TIMERS-n": "worse", "slices": "worse"}
    made = there(*words)
    assert {one["identity"]["build_id"][:12] for one in made} == {text.rpartition(" ")[2] for text in kernels.values()}
    assert [patch["name"] for one in made for patch in one["source"]["patches"]] == ["slices.patch"]
    assert len({one["config_sha256"] for one in made}) == 2, "the patch changes no configuration"
    recheck = ktrial("trial", "recheck")
    assert recheck.returncode == 0, recheck.stderr


def test_the_tiers_of_arashi_are_built_on_top_of_each_other(sources: tuple[str, ...]) -> None:
    words = ("ladder", "arashi", *sources, *MEASURED, "--budget", "9")
    done = ktrial(*words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.split()[:2] == ["to", "T0"])
    assert lines[at].split() == ["to", "T0", "T1", "T3a"]
    assert any("lateness-p99*" in line for line in lines[at:])
    assert "in force already: mglru:enabled, kconfig:LRU_GEN, kconfig:LRU_GEN_ENABLED" in " ".join(done.stdout.split())
    assert "T2a not run: it asks for the compiler clang" in " ".join(done.stderr.split())
    assert "T3b not run: SCHED_BORE needs BORE" in " ".join(done.stderr.split())
    lowest, first, third = there(*words)
    assert [one["fragments"][:-1] for one in (lowest, first, third)] == [
        [],
        ["btf", "arashi-t1"],
        ["btf", "arashi-t1", "arashi-t3a"],
    ]


def test_of_two_symbols_and_a_word_the_symbol_that_did_it_is_named_alone(sources: tuple[str, ...]) -> None:
    factors = ("--set", "PRINTK_TIME=y", "--set", "HIGH_RES_TIMERS=n", "--boot", "norandmaps", "--known", "worse")
    done = ktrial("blame", *sources, *factors, *MEASURED, "--json")
    assert done.returncode == 0, done.stderr
    assert "4 kernels; ktrial builds" in done.stderr
    blame = json.loads(done.stdout.splitlines()[-1])["blame"]
    assert [(one["factors"], one["kind"]) for one in blame["culprits"]] == [(["kconfig:HIGH_RES_TIMERS=n"], "alone")]
    assert blame["suspects"] == []
