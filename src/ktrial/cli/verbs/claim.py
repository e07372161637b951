# SPDX-License-Identifier: Apache-2.0
"""`ktrial claim`: check whether data support a claim about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import result_names
from ktrial.cli.options import json_option, write_answer
from ktrial.cli.shared.compare import compared, gathered, share, table_options
from ktrial.kit.errors import BadInput, GuardTripped

if TYPE_CHECKING:
    from ktrial.compare.claims.file import ClaimFile
    from ktrial.judge.model.claim import ClaimResult
    from ktrial.judge.model.comparison import Comparison

_LIMIT_BYTES = 1 << 20


@click.command(short_help="Test a claim such as 'p50 -43 %' against data.")
@click.argument("claim", metavar="CLAIM|FILE.toml")
@click.argument("words", nargs=-1, shell_complete=result_names, metavar="[LABEL|SESSION|[NAME=]FILE…]")
@click.option("--control", metavar="NAME", help="Baseline to compare against.  [the first configuration]")
@click.option("--margin", metavar="SHARE", help="Treat smaller differences as equivalent.  [2%; p95 5%, p99 10%]")
@click.option(
    "--declared", multiple=True, metavar="KNOB|CONDITION", help="Condition or knob that is meant to differ. Repeatable."
)
@click.option(
    "--accept", "accepted", metavar="REASON", help="Reason to ignore differing conditions; the report prints REASON."
)
@click.option("--fail-on", type=click.Choice(["refuted"]), help="Exit with status 3 if a claim is refuted.")
@table_options
@json_option
@click.pass_obj
def command(
    app: App,
    /,
    claim: str,
    words: tuple[str, ...],
    control: str | None,
    margin: str | None,
    declared: tuple[str, ...],
    accepted: str | None,
    fail_on: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Check whether data support or refute a claim, such as "latency p50 -43%".

    \b
    ktrial claim 'latency p50 -43%' stock bore
    ktrial claim 'throughput 1.8x' stock=before.json bore=after.json
    ktrial claim claims.toml stock bore

    Each claim gets one status: supported, refuted, not supported by these data, at odds with these data, or cannot be
    decided here. "Not supported by these data" means that the data allow the claim without showing it. "At odds with
    these data" means that the data speak against the claim without refuting it. A claim file may also contain published
    figures, which ktrial checks without data (docs/formats.md).
    """
    from ktrial.compare.claims.text import claims_text
    from ktrial.compare.compare import CompareQuery
    from ktrial.judge.model.claim import parse_claim

    file = _file(claim)
    place = claim if claim.endswith(".toml") else None
    for number, one in enumerate(file.claim, 1):
        with _locate_errors(place, "claim", number):
            parse_claim(one.says)
    if file.claim and not words:
        raise BadInput(
            "no data to check the claim against",
            hint="name labels, sessions or files: `ktrial claim CLAIM BASELINE OTHER`",
        )
    if words and not file.claim:
        raise BadInput(
            "no [[claim]] table to check against the data",
            file=place,
            hint="leave out the data, or add a [[claim]] table",
        )
    found = None
    if file.claim:
        query = CompareQuery(margin=share(margin, "--margin"), accepted=accepted, keep_repeats=True)
        arms = gathered(app, words, options).arms
        found = compared(app, arms, control, query, declared, swing=0.25, assumptions=False)
    results = _results(file, found, place)
    write_answer(
        as_json,
        lambda: {"schema": "ktrial.claims/1", "source": file.source, "about": file.about, "results": results},
        lambda width: claims_text(results, file.source, width=width),
    )
    refuted = [one for one in results if one.status == "refuted"]
    if fail_on is not None and refuted:
        raise GuardTripped(f"the data refute {'; '.join(repr(one.claim) for one in refuted)}")
    return 0


def _file(claim: str) -> ClaimFile:
    from ktrial.compare.claims.file import ClaimFile, DataClaim, parse_claim_file
    from ktrial.kit.files import read_file

    if claim.endswith(".toml"):
        return parse_claim_file(read_file(Path(claim), _LIMIT_BYTES), claim)
    return ClaimFile(claim=(DataClaim(says=claim),))


def _results(file: ClaimFile, found: Comparison | None, place: str | None) -> list[ClaimResult]:
    from ktrial.compare.claims.check import claim_on_change, claim_on_data, claims_on_tukey

    results: list[ClaimResult] = []
    for number, one in enumerate(file.claim, 1):
        assert found is not None, "data were named"
        with _locate_errors(place, "claim", number):
            results.append(claim_on_data(one.says, one.arm, found))
    for number, change in enumerate(file.change, 1):
        with _locate_errors(place, "change", number):
            results.append(claim_on_change(change))
    with _locate_errors(place, "tukey"):
        results.extend(claims_on_tukey(file.tukey))
    return results


@contextmanager
def _locate_errors(file: str | None, table: str, number: int | None = None) -> Iterator[None]:
    """Add the file and the table to errors in a claim."""
    try:
        yield
    except BadInput as error:
        if file is None:
            raise
        which = f"[[{table}]]" + (f" {number}" if number is not None else "")
        raise BadInput(f"{which}: {error.message}", file=file, hint=error.hint) from error
