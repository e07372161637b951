# SPDX-License-Identifier: Apache-2.0
"""A comparison as JUnit XML, which build servers read: a case for each outcome of each arm.

`worse` is a failure, and a guard that is broken. What does not tell the arm from another cause (`different`, `no
difference seen`), `inconclusive` or `not comparable` is skipped: it neither passed nor failed.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from ktrial.bench.text import percent, show
from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.words import effect_text
from ktrial.kit.tables import clean
from ktrial.reports.order import asked_only
from ktrial.reports.sections import pair_name

_SKIPPED = frozenset({"different", "no difference seen", "inconclusive", "not comparable"})


def junit_xml(comparison: Comparison) -> bytes:
    comparison = asked_only(comparison)
    suite = ET.Element("testsuite", {"name": clean(comparison.title)})
    verdicts: list[str] = []
    for outcome in comparison.outcomes:
        for contrast in outcome.judged:
            verdicts.append("worse" if _is_broken(contrast) else contrast.verdict)
            suite.append(_case(outcome, contrast))
    skipped = sum(verdict in _SKIPPED for verdict in verdicts)
    for name, count in (("tests", len(verdicts)), ("failures", verdicts.count("worse")), ("errors", 0)):
        suite.set(name, str(count))
    suite.set("skipped", str(skipped))
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
            names = ("mean", "median", "min", "max")
            values = [show(value, outcome.unit) for value in (one.mean, one.median, one.minimum, one.maximum)]
            told = [f"{name} {value}" for name, value in zip(names, values, strict=True)]
            told.insert(2, "sd -" if one.sd is None else f"sd {show(one.sd, outcome.unit)}")
            told.insert(3, f"CV {percent(one.cv)}")
            lines.append(clean(f"{outcome.name}, {one.arm}: n {one.n}, {', '.join(told)}"))
    return lines


def _findings(comparison: Comparison) -> list[str]:
    """Return every doubt and note, that of an outcome with its name."""
    found = [(finding.level, finding.sentence) for finding in comparison.findings]
    for outcome in comparison.outcomes:
        own = (*outcome.findings, *(one for contrast in outcome.contrasts for one in contrast.findings))
        found += [(finding.level, f"{outcome.name}: {finding.sentence}") for finding in own]
    return [clean(f"{level}: {sentence}") for level, sentence in dict.fromkeys(found)]


def _is_broken(contrast: Contrast) -> bool:
    """Return whether it is a guard that is surely worse than it may be."""
    return any(one.kind == "guard-broken" for one in contrast.findings)


def _case(outcome: OutcomeComparison, contrast: Contrast) -> ET.Element:
    case = ET.Element("testcase", {"classname": clean(outcome.name), "name": clean(pair_name(contrast, outcome))})
    estimate, interval = effect_text(contrast.effect, outcome.unit, outcome.direction)
    told = f"{contrast.verdict}: {estimate} ({interval}), {contrast.why}"
    if contrast.verdict == "worse" or _is_broken(contrast):
        failure = ET.SubElement(case, "failure", {"type": "worse", "message": clean(told)})
        failure.text = clean(contrast.sentence)
    elif contrast.verdict in _SKIPPED:
        ET.SubElement(case, "skipped", {"message": clean(told)})
    else:
        ET.SubElement(case, "system-out").text = clean(told)
    return case
