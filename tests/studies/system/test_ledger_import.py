# SPDX-License-Identifier: Apache-2.0
"""Verdicts travel: a bundle of another machine is signed, imported beside one's own trials, and never counts here."""

from __future__ import annotations

import shlex
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.support.told_trials import messaging_trial
from tests.support.tree import FakeRoot, Ran

TRIAL = "messages-theirs"
Run = Callable[[str], Ran]


@pytest.fixture
def run(root: FakeRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Commands on this machine. `theirs.db` is the store of another one, where vm.swappiness=10 was better."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    root.write("/proc/sys/kernel/random/boot_id", "99999999-2222-3333-4444-555555555555\n")
    root.write("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Example 2\n")
    store = Store(Database.open("theirs.db"))
    messaging_trial(store, host="theirs", changes={"vm.swappiness": "10"})
    store.close()

    def ran(words: str) -> Ran:
        return root.run(*shlex.split(words))

    assert ran("--store theirs.db bundle b.tar.zst").status == 0
    return ran


def words(text: str) -> str:
    return " ".join(text.split())


def key_of(name: str, tmp_path: Path) -> None:
    """Make a key, and let the file `signers` have it alone."""
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(tmp_path / name)]
    subprocess.run(make, check=True)
    (tmp_path / "signers").write_text(f"{name} {(tmp_path / name).with_suffix('.pub').read_text()}")


def test_a_verdict_travels_signed_and_stays_apart(run: Run, root: FakeRoot, tmp_path: Path) -> None:
    key_of("alice", tmp_path)
    assert run("--store theirs.db bundle signed.tar.zst --sign alice").status == 0
    first = run("ledger import b.tar.zst")
    assert (first.status, first.out) == (0, ""), first.err
    assert "b.tar.zst, unsigned: added 1 verdict." in first.err
    again = run("ledger import b.tar.zst --json")
    assert (again.json["added"], again.json["known"], again.json["signer"]) == ([], [TRIAL], None)
    signed = run("ledger import signed.tar.zst --signers signers --json")
    assert (signed.json["newly_signed"], signed.json["signer"]) == ([TRIAL], "alice"), signed.err

    own, _, elsewhere = words(run("ledger").out).partition("tried elsewhere")
    assert own.startswith("No trials on this machine yet")
    assert "better vm.swappiness=10 in perf-messaging.time (perf-messaging): -2.7 % (" in elsewhere
    assert "signed by alice" in elsewhere
    assert "Differs: CPU Example 1 (here Example 2), threads 8 (here 1); unknown: memory, kernel" in elsewhere
    document = run("ledger vm.swappiness --json").json
    assert (document["entries"], [one["entry"]["trial"] for one in document["elsewhere"]]) == ([], [TRIAL])
    assert run("ledger show vm.page-cluster --json").json["elsewhere"] == []
    assert "| better |" in run("ledger --markdown").out.partition("## Tried elsewhere")[2]
    explained = run("explain vm.swappiness")
    assert "measured here" not in explained.out
    assert "tried elsewhere" in explained.out
    known = run("explain vm.swappiness --json").json
    assert (known["measured"], [one["signer"] for one in known["elsewhere"]]) == ([], ["alice"])
    status = run("--no-sudo status --json").json
    assert (status["verdicts"], [one["signer"] for one in status["elsewhere"]]) == ([], ["alice"])

    assert "elsewhere   vm.swappiness=10; perf-messaging.time -2.7 % (" in run("--no-sudo status").out

    assert TRIAL not in (root.run("trial", "list").out + root.run("runs").out)
    assert run(f"keep {TRIAL} --yes").status == 2
    assert "nothing to retest" in run("retest").err
    kept = run("keep vm.swappiness=10 --yes --json")
    assert kept.status == 0, kept.err
    assert "better" not in root.read("/etc/sysctl.d/ktrial.conf")

    assert "removed 1 trial of alice from the ledger" in run("ledger forget --from alice").err
    assert "elsewhere" not in run("ledger").out
    assert run("ledger forget --from alice").status == 2


def test_what_may_not_be_imported(run: Run, tmp_path: Path) -> None:
    key_of("alice", tmp_path)
    key_of("bob", tmp_path)
    assert run("--store theirs.db bundle signed.tar.zst --sign alice").status == 0
    for bundle, state in (("b", "it has no signature"), ("signed", "none of these signers has the key")):
        refused = run(f"ledger import {bundle}.tar.zst --signers signers")
        assert refused.status == 1
        assert f"cannot import {bundle}.tar.zst as signed: {state}" in refused.err
    assert run("--store theirs.db bundle named.tar.zst --keep-identity").status == 0
    named = run("ledger import named.tar.zst")
    assert (named.status, "may contain names of hosts and users" in named.err) == (4, True)
    with sqlite3.connect("theirs.db") as store:
        verdict = "update trial_events set document = replace(document, '\"better\"', '\"worse\"')"
        assert store.execute(verdict).rowcount
    assert run("--store theirs.db bundle wrong.tar.zst").status == 0
    wrong = run("ledger import wrong.tar.zst")
    assert wrong.status == 4
    assert "the verdicts do not follow from the runs (trial messages-theirs, a verdict" in wrong.err
    for data in (b"\x28\xb5\x2f\xfd", Path("b.tar.zst").read_bytes()[:-9], b"text"):
        Path("bad.tar.zst").write_bytes(data)
        assert run("ledger import bad.tar.zst").status == 2
    assert run("ledger import gone.tar.zst").status == 2
    assert "elsewhere" not in run("ledger").out


def test_a_bundle_of_this_machine_is_ones_own(run: Run) -> None:
    """Results of this machine's boots, which its store has, are imported with `ktrial import`."""
    assert run("import b.tar.zst").status == 0
    assert run("ledger import b.tar.zst").status == 0, "it came from elsewhere, although the store has it"
    assert run("--store theirs.db ledger import b.tar.zst").status == 4
    own = run("--store theirs.db ledger import b.tar.zst")
    assert "so its verdicts are your own" in own.err
    assert "run `ktrial import b.tar.zst` to add the session to your store" in own.err


def test_an_imported_trial_of_equal_hardware_proves_nothing_here(run: Run, root: FakeRoot) -> None:
    """`ktrial import` stores the trials of a bundle, to look at; the machine of equal hardware is still another one."""
    assert run("import b.tar.zst").status == 0
    (entry,) = run("ledger --json").json["entries"]
    assert entry["entry"]["machine"].startswith("another one: ")
    refused = run(f"keep {TRIAL} --yes")
    assert (refused.status, "it was measured on another machine" in refused.err) == (4, True), refused.err


def test_a_damaged_file_is_said_and_hides_nothing_else(run: Run) -> None:
    assert run("ledger import b.tar.zst").status == 0
    (file,) = Path.home().rglob("ledger-elsewhere.json")
    file.write_text("{")
    shown = run("ledger")
    assert shown.status == 0
    assert "No trials on this machine yet" in shown.out
    assert "cannot read the verdicts of others" in shown.err
    assert run("ledger import b.tar.zst").status == 1
