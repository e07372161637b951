# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ktrial.compare.claims.check import claim_on_change, claim_on_data, claims_on_tukey
from ktrial.compare.claims.file import ChangeClaim, ClaimFile, TukeyGroup, TukeyPair, TukeyTable, parse_claim_file
from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.kit.errors import BadInput, UnknownName

CLAIMS = Path(__file__).resolve().parents[3] / "examples" / "claims"


def contrast(arm: str = "bore", **fields: Any) -> Contrast:
    """35 % less time, from 33 % to 37 %."""
    effect = Effect(estimate=-math.log(0.65), low=-math.log(0.67), high=-math.log(0.63), method="by hand")
    given: dict[str, Any] = {"verdict": "better", "why": "it is so", "effect": effect, "worth": "yes", **fields}
    return Contrast(arm=arm, control="stock", n_arm=9, n_control=9, blocks=None, test=None, sentence="", **given)


def comparison(*contrasts: Contrast, names: tuple[str, ...] = ("wakeup-p50",), unit: Any = "s") -> Comparison:
    outcomes = tuple(
        OutcomeComparison(
            benchmark="schbench",
            outcome=name,
            unit=unit,
            direction="lower",
            role="exploratory",
            margin=0.02,
            arms=(),
            contrasts=contrasts or (contrast(),),
        )
        for name in names
    )
    return Comparison(title="", answer="", scope="", control="stock", arms=(), outcomes=outcomes, findings=())


@pytest.mark.parametrize(
    "claim, status",
    [
        ("p50 -35%", "supported"),
        ("p50 -37%", "supported"),
        ("p50 -38%", "refuted"),
        ("p50 -43%", "refuted"),
        ("p50 +35%", "refuted"),
        ("p50 lower", "supported"),
        ("p50 higher", "refuted"),
        ("p50 unchanged", "refuted"),
        ("latency 1.5x", "supported"),
        ("latency 1.5x slower", "refuted"),
    ],
)
def test_claims_on_data_that_decide(claim: str, status: str) -> None:
    result = claim_on_data(claim, None, comparison())
    assert result.status == status
    assert "35 % less time (1.54 times as fast), 95 % interval 33 % to 37 % less" in result.recomputed


def test_a_claim_of_the_wrong_base_is_told_so() -> None:
    result = claim_on_data("p50 54% lower", None, comparison())
    assert result.status == "refuted"
    assert "relative to the new value; relative to the old one it is -35 %" in result.why


@pytest.mark.parametrize("verdict", ["inconclusive", "different", "no difference seen"])
def test_data_that_do_not_decide_support_nothing(verdict: Verdict) -> None:
    unsure = contrast(verdict=verdict, why="time and arm are confounded", worth=None)
    for claim, outside in (("p50 -35%", False), ("p50 -60%", True)):
        result = claim_on_data(claim, None, comparison(unsure))
        assert result.status == ("at odds with these data" if outside else "not supported by these data")
        assert ("outside the observed interval" in result.why) == outside
        assert "time and arm are confounded" in result.why


def test_no_effect_in_the_interval_supports_no_effect_at_all() -> None:
    wide = Effect(estimate=0.005, low=-0.015, high=0.018, method="by hand")
    same = contrast(verdict="equivalent", effect=wide, worth=None, why="within the margin")
    assert claim_on_data("p50 unchanged", None, comparison(same)).status == "supported"
    assert claim_on_data("p50 -1%", None, comparison(same)).status == "not supported by these data"
    assert claim_on_data("p50 -5%", None, comparison(same)).status == "refuted"


def test_what_cannot_be_decided() -> None:
    refused = contrast(verdict="not comparable", effect=None, why="the governor differs")
    result = claim_on_data("p50 -35%", None, comparison(refused))
    assert (result.status, result.recomputed) == ("cannot be decided here", "-")
    assert "the governor differs" in result.why
    single = contrast(effect=Effect(estimate=0.4, low=None, high=None, method="x"), verdict="inconclusive", why="n = 1")
    assert claim_on_data("p50 -35%", None, comparison(single)).status == "cannot be decided here"


def test_outcomes_and_arms_that_are_not_there() -> None:
    with pytest.raises(UnknownName) as error:
        claim_on_data("p77 -5%", None, comparison())
    assert "schbench.wakeup-p50" in str(error.value.hint)
    with pytest.raises(BadInput, match="matches several outcomes"):
        claim_on_data("latency -5%", None, comparison(names=("p50", "p99")))
    assert claim_on_data("p99 -35%", None, comparison(names=("p50", "p99"))).status == "supported"
    two = comparison(contrast(), contrast("clang"))
    with pytest.raises(BadInput, match="which arm"):
        claim_on_data("p50 -35%", None, two)
    assert claim_on_data("clang: p50 -35%", None, two).status == "supported"
    with pytest.raises(UnknownName):
        claim_on_data("gcc: p50 -35%", None, two)


def change(old: str, new: str, says: str, **others: str) -> Any:
    claim = ChangeClaim(what="x", old=old, new=new, says=says, others=others)
    return claim_on_change(claim)


@pytest.mark.parametrize(
    "old, new, says, status, why",
    [
        ("6.3 ms", "4.1 ms", "35% lower", "supported", "percent of the old value"),
        ("6.3 ms", "4.1 ms", "55% lower", "refuted", "relative to the new value (4.1 ms)"),
        ("3.25 s", "2.99 s", "9% faster", "supported", "as a change of speed"),
        ("10.0 s", "8.00 s", "25% faster", "supported", "as a change of speed"),
        ("10.0 s", "8.00 s", "20% faster", "supported", "in percent of the old value"),
        ("3.25 s", "2.99 s", "12% faster", "refuted", "the printed numbers allow"),
        ("100", "50", "-50%", "supported", "percent of the old value"),
    ],
)
def test_claims_on_printed_numbers(old: str, new: str, says: str, status: str, why: str) -> None:
    result = change(old, new, says)
    assert result.status == status
    assert why in result.why


def test_mixed_bases_are_named() -> None:
    result = change("4,808 us", "52 us", "-98.5%", T1="4,264 us", T2a="3,581 us")
    assert result.status == "refuted"
    assert result.why == "-98.5% is relative to T2a (3,581 us), not to 4,808 us: the bases are mixed"


def test_printed_numbers_of_two_units() -> None:
    with pytest.raises(BadInput, match="have different units"):
        change("1 s", "2 ms", "-5%")


def printed_table(**changed: str) -> TukeyTable:
    """Three groups of ten random numbers, as scipy's `tukey_hsd` judges them."""
    generator = np.random.default_rng(5)
    data = {name: generator.normal(mean, 1, 10) for name, mean in (("a", 10.0), ("b", 11.5), ("c", 10.2))}
    names = list(data)
    tested = stats.tukey_hsd(*data.values())
    pooled = math.sqrt(np.mean([values.var(ddof=1) for values in data.values()]) / 10)
    pairs = [(0, 1), (0, 2), (1, 2)]
    return TukeyTable(
        what="t",
        group=tuple(
            TukeyGroup(name=name, mean=f"{values.mean():.6f}", sd=f"{values.std(ddof=1):.6f}", n=10)
            for name, values in data.items()
        ),
        pair=tuple(
            TukeyPair(
                first=names[i],
                second=names[j],
                q=changed.get(f"{names[i]}{names[j]}", f"{abs(tested.statistic[i, j]) / pooled:.3f}"),
                p=f"{tested.pvalue[i, j]:.4f}",
            )
            for i, j in pairs
        ),
    )


def test_a_table_of_scipys_own_test_holds_together() -> None:
    results = list(claims_on_tukey([printed_table()]))
    assert len(results) == 7
    assert {result.status for result in results} == {"supported"}


def test_a_q_that_does_not_belong_is_refuted_twice() -> None:
    results = {result.claim: result for result in claims_on_tukey([printed_table(ac="9.652")])}
    assert results["t: a and c: Q 9.652"].status == "refuted"
    (together,) = [
        result for claim, result in results.items() if "Q" in claim and " and " in claim and claim.count(".") > 2
    ]
    assert (together.status, "inconsistent" in together.why) == ("refuted", True)


def test_the_same_q_in_another_table_is_told() -> None:
    tables = [printed_table(ac="9.652"), printed_table(bc="9.652")]
    told = [result.why for result in claims_on_tukey(tables) if result.status == "refuted"]
    assert any("the same Q appears in t, b and c" in why for why in told)


def test_a_p_at_the_end_of_what_its_program_prints_is_told_as_one() -> None:
    name = "kernel-compiler-patch.toml"
    told = {
        result.claim: result.why
        for result in claims_on_tukey(parse_claim_file((CLAIMS / name).read_bytes(), name).tukey)
    }
    machine = "machine 1, Ryzen 9 5950X: "
    assert told[machine + "generic and Zen 3: p 0.0010053"].endswith(
        "; 0.0010053 is the smallest p that its program prints"
    )
    assert told[machine + "x86-64-v3 and Zen 3: p 0.8999947"].endswith(
        "; 0.8999947 is the largest p that its program prints"
    )
    assert "prints" not in told["machine 3, N100: generic and x86-64-v3: p 0.0012818"]


def refuted(name: str) -> tuple[int, list[str]]:
    file: ClaimFile = parse_claim_file((CLAIMS / name).read_bytes(), name)
    results = [*(claim_on_change(one) for one in file.change), *claims_on_tukey(file.tukey)]
    return len(results), [result.claim for result in results if result.status == "refuted"]


def test_the_published_tables_that_ship_as_examples() -> None:
    """What is refuted was computed by hand from the printed figures: see the reasons in the files' own numbers."""
    assert refuted("arashi.toml") == (
        11,
        ["headline: schbench p99, T0 to T3b: -98.5%", "summary: page fault throughput, T0 to T3b: +41%"],
    )
    assert refuted("margine.toml") == (8, ["thread latency, mean: 55% lower", "wake-up latency, p50: 43% lower"])
    assert refuted("kernel-compiler-patch.toml") == (
        24,
        [
            "machine 1, Ryzen 9 5950X: x86-64-v3 and Zen 3: Q 9.6524",
            "machine 1, Ryzen 9 5950X: Q 13.4675, 12.8771 and 9.6524",
            "machine 2, i7-4790K: generic and x86-64-v3: Q 28.9652",
            "machine 2, i7-4790K: generic and Haswell: Q 24.8335",
            "machine 2, i7-4790K: x86-64-v3 and Haswell: Q 4.1317",
            "machine 2, i7-4790K: x86-64-v3 and Haswell: p 0.0167155",
        ],
    )
