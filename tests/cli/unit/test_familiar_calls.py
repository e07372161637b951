# SPDX-License-Identifier: Apache-2.0
"""Calls that people make before they have read anything."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from ktrial.cli.main import main

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "imports"
MARGINE = "margine-bench-kernel/1"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "KTRIAL_STORE"):
        monkeypatch.delenv(name, raising=False)


def run(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return main(list(words), out, err), out.getvalue(), err.getvalue()


def compared(*words: str) -> dict[str, Any]:
    status, out, err = run("compare", *words, "--json")
    assert status == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def margine(label: str, count: int, p99_us: int) -> list[str]:
    names = [f"{label}{number}.json" for number in range(count)]
    for number, name in enumerate(names):
        told = {"schema": MARGINE, "label": label, "schbench_p99_us": p99_us + 7 * number, "kernel": "6.18"}
        Path(name).write_text(json.dumps(told))
    return names


def test_files_of_two_labels_are_two_arms() -> None:
    found = compared(*margine("margine", 5, 9000), *margine("bluefin", 5, 12000))
    assert [(arm["arm"], arm["runs"]) for arm in found["arms"]] == [("margine", 5), ("bluefin", 5)]
    (contrast,) = found["outcomes"][0]["contrasts"]
    assert (contrast["n_control"], contrast["n_arm"]) == (5, 5)
    status, _, err = run("compare", *margine("margine", 2, 9000))
    assert (status, "have the label 'margine'" in err) == (2, True)


def test_a_file_of_several_groups_is_not_mixed_with_another() -> None:
    for name in ("before", "after"):
        Path(f"{name}.csv").write_text("k,time_s\nx,1\nx,1.1\ny,2\ny,2.1\n")
    status, _, err = run("compare", "before.csv", "after.csv", "--by", "k", "--value", "time_s")
    assert (status, "both before.csv and after.csv have the label" in err) == (2, True)


def test_two_tables_are_of_one_benchmark() -> None:
    for name, base in (("before", 10), ("after", 8)):
        Path(f"{name}.csv").write_text("time_s\n" + "".join(f"{base + step / 10}\n" for step in (3, 1, 4, 0, 5, 9)))
    found = compared("stock=before.csv", "tuned=after.csv", "--value", "time_s", "--direction", "lower")
    assert [one["benchmark"] for one in found["outcomes"]] == ["table"]
    assert found["outcomes"][0]["contrasts"][0]["verdict"] == "different"


def test_tables_that_both_arms_have_keep_their_names() -> None:
    for name in ("spin", "disk"):
        for arm in "ab":
            Path(arm).mkdir(exist_ok=True)
            Path(f"{arm}/{name}.csv").write_text("time_s\n1\n1.1\n")
    found = compared("a=a/spin.csv", "a=a/disk.csv", "b=b/spin.csv", "b=b/disk.csv", "--value", "time_s")
    assert sorted(one["benchmark"] for one in found["outcomes"]) == ["disk", "spin"]


def test_the_second_column_of_a_name_is_named() -> None:
    Path("t.csv").write_text("arm,time_s,time_s,\n" + "a,1,5,x\nb,1,7,x\n" * 4)
    found = compared("t.csv", "--by", "arm", "--value", "time_s#2")
    medians = [arm["median"] for arm in found["outcomes"][0]["arms"]]
    assert medians == [5, 7]
    status, out, err = run("import", "t.csv", "--by", "arm", "--value", "time_s", "--dry-run")
    assert (status, "the second one is 'time_s#2'" in " ".join(out.split())) == (0, True), err


@pytest.mark.parametrize("option", ["--benchmark", "--by", "--block", "--unit"])
@pytest.mark.parametrize("verb", ["compare", "import"])
def test_an_option_that_counts_once_is_refused_twice(verb: str, option: str) -> None:
    Path("t.csv").write_text("arm,bench,time_s\na,x,1\nb,x,2\n")
    status, _, err = run(verb, "t.csv", "--value", "time_s", option, "arm", option, "bench")
    assert (status, "expected one value, got arm and bench" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize("claim", ["schbench_p99_us 33% higher", "schbench-p99 33% higher"])
def test_claims_may_use_the_names_of_the_file(claim: str) -> None:
    status, out, err = run("claim", claim, *margine("margine", 5, 9000), *margine("bluefin", 5, 12000))
    assert (status, "margine-bench-kernel.schbench-p99" in " ".join(out.split())) == (0, True), err


@pytest.mark.parametrize("claim", ["p99_us 10% higher", "p99 10% higher", "time(sec) 10% higher"])
def test_claims_may_use_the_names_of_columns(claim: str) -> None:
    Path("t.csv").write_text("arm,p99_us,time(sec),time_max\n" + "a,10,2,3\nb,11,2.2,3\n" * 4)
    columns = ("--value", "p99_us", "--value", "time(sec)", "--value", "time_max")
    status, _, err = run("claim", claim, "t.csv", "--by", "arm", *columns)
    assert status == 0, err


@pytest.mark.parametrize(
    "header, unit, value",
    [
        ("faults_s", "1/s", 3.0),
        ("ops_s", "1/s", 3.0),
        ("read_MB_s", "B/s", 3e6),
        ("build_s", "s", 3.0),
        ("times_s", "s", 3.0),
        ("p99_ms", "s", 0.003),
        ("total_sec", "s", 3.0),
    ],
)
def test_what_is_counted_a_second_is_a_rate(header: str, unit: str, value: float) -> None:
    Path("t.csv").write_text(f"arm,{header}\n" + "a,3\nb,3\n" * 4)
    (outcome,) = compared("t.csv", "--by", "arm", "--value", header)["outcomes"]
    assert (outcome["unit"], outcome["arms"][0]["median"]) == (unit, value)


def two_hosts(column: str, *told: str) -> str:
    rows = (f"{arm},{3 + step / 10},{one}" for arm, one in zip("ab", told, strict=True) for step in range(4))
    Path("t.csv").write_text(f"arm,time_s,{column}\n" + "\n".join(rows) + "\n")
    return str(compared("t.csv", "--by", "arm", "--value", "time_s")["scope"])


def test_a_laptop_of_two_host_names_is_not_called_two_machines() -> None:
    same = "8086-u7,Q77,32 GiB"
    assert two_hosts("hostname,cpu_model,board,memory", f"fedora,{same}", f"bazzite,{same}").startswith(
        "on 2 host names, one for each arm of probably one machine"
    )
    assert two_hosts("hostname", "fedora", "bazzite").startswith("on 2 host names, one for each arm, boots")
    assert two_hosts("hostname,machine_id", "fedora,9c1d", "bazzite,9C1D").startswith("on one machine")
    assert two_hosts("hostname,machine_id", "x,9c1d", "x,77aa").startswith("on 2 machines, one for each arm")
    _, out, _ = run("compare", "t.csv", "--by", "arm", "--value", "time_s", "--json")
    assert "9c1d" not in out


def test_data_beside_a_file_that_has_no_claim_on_data_are_not_passed_over() -> None:
    Path("c.toml").write_text('[[change]]\nwhat = "p50"\nfrom = "10"\nto = "9"\nsays = "10% lower"\n')
    assert run("claim", "c.toml")[0] == 0
    status, out, err = run("claim", "c.toml", *margine("margine", 3, 9000), *margine("bluefin", 3, 12000))
    assert (status, out, "no [[claim]] table to check against the data" in " ".join(err.split())) == (2, "", True)


@pytest.mark.parametrize("seconds, verdict", [(30, "inconclusive"), (15, "not comparable")])
def test_schbench_of_another_runtime_is_not_compared(seconds: int, verdict: str) -> None:
    whole = json.loads((GOLDEN / "schbench" / "2025-12-json" / "input.json").read_text())
    for arm, told in (("a", 30), ("b", seconds)):
        for number in range(3):
            whole["int"]["runtime"] = told
            Path(f"{arm}{number}.json").write_text(json.dumps(whole | {"run": number}))
    words = [f"{arm}={arm}{number}.json" for arm in "ab" for number in range(3)]
    assert {one["contrasts"][0]["verdict"] for one in compared(*words)["outcomes"]} == {verdict}


def test_a_program_that_cannot_run_is_not_called_missing() -> None:
    Path("my bench.sh").write_text("true\n")
    for word, message, step in (
        (
            "./my bench.sh",
            "cannot run ./my bench.sh: it is not executable",
            "chmod +x './my bench.sh'",
        ),
        ("./none.sh", "./none.sh: no such program", "check the path"),
        (
            "no-such-program",
            "no-such-program: no such program",
            "give the program's path, or install it in a folder of PATH",
        ),
    ):
        status, _, err = run("bench", "--", word)
        assert (status, err) == (2, f"ktrial: {message}\n  next: {step}\n")
