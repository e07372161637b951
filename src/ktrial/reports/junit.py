# SPDX-License-Identifier: Apache-2.0
"""Render a comparison as JUnit XML for build servers: one test case for each outcome of each arm.

`worse` and a broken guard are failures. `inconclusive`, `not comparable` and the verdicts on observational data
(`different`, `no difference seen`) are skipped tests, which neither pass nor fail.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from ktrial.bench.text import percent, show
from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.words import effect_text
from ktrial.kit.finding import LEVEL_WORDS
from ktrial.kit.tables import clean
from ktrial.reports.order import asked_only
from ktrial.reports.sections import pair_name

_SKIPPED = frozenset({"different", "no difference seen", "inconclusive", "not comparable"})


def junit_xml(comparison: Comparison) -> bytes:
    comparison = asked_only(comparison)
    suite = ET.Element("testsuite", {"name": clean(comparison.title)})
    suite.extend(_case(outcome, contrast) for outcome in comparison.outcomes for contrast in outcome.judged)
    failures, skipped = (len(suite.findall(f"testcase/{name}")) for name in ("failure", "skipped"))
    for name, count in (("tests", len(suite)), ("failures", failures), ("errors", 0), ("skipped", skipped)):
        suite.set(name, str(count))
    ET.SubElement(suite, "system-out").text = "\n".join(
        [clean(comparison.answer), *_figures(comparison), *_findings(comparison)]
    )
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    whole: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return whole + b"\n"


def _figures(comparison: Comparison) -> list[str]:
    """Return a line for each outcome of each arm."""
    lines = []
    for outcome in comparison.outcomes:
        for one in outcome.arms:
            figures = (one.mean, one.median, one.sd, one.minimum, one.maximum)
            mean, median, sd, low, high = ("-" if value is None else show(value, outcome.unit) for value in figures)
            values = f"mean {mean}, median {median}, sd {sd}, CV {percent(one.cv)}, min {low}, max {high}"
            lines.append(clean(f"{outcome.name}, {one.arm}: n {one.n}, {values}"))
    return lines


def _findings(comparison: Comparison) -> list[str]:
    """Return every doubt and note; those of an outcome begin with its name."""
    lines = [f"{LEVEL_WORDS[finding.level]}: {finding.sentence}" for finding in comparison.findings]
    for outcome in comparison.outcomes:
        own = (*outcome.findings, *(one for contrast in outcome.contrasts for one in contrast.findings))
        lines += [f"{LEVEL_WORDS[finding.level]}: {outcome.name}: {finding.sentence}" for finding in own]
    return [clean(line) for line in dict.fromkeys(lines)]


def _case(outcome: OutcomeComparison, contrast: Contrast) -> ET.Element:
    case = ET.Element("testcase", {"classname": clean(outcome.name), "name": clean(pair_name(contrast, outcome))})
    estimate, interval = effect_text(contrast.effect, outcome.unit, outcome.direction)
    message = clean(f"{contrast.verdict}: {estimate} ({interval}), {contrast.why}")
    if contrast.verdict == "worse" or any(one.kind == "guard-broken" for one in contrast.findings):
        failure = ET.SubElement(case, "failure", {"type": "worse", "message": message})
        failure.text = clean(contrast.sentence)
    elif contrast.verdict in _SKIPPED:
        ET.SubElement(case, "skipped", {"message": message})
    else:
        ET.SubElement(case, "system-out").text = message
    return case
