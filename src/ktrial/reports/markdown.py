# SPDX-License-Identifier: Apache-2.0
"""A comparison as Markdown that reads well as it stands and on a code hosting site.

Also in the few lines that a build server shows beside a step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ktrial.bench.numbers import column
from ktrial.bench.text import percent
from ktrial.compare.exclusion import dependence_words
from ktrial.compare.missing import hole_rows
from ktrial.judge.model.comparison import Comparison, OutcomeComparison
from ktrial.judge.model.words import effect_text, p_text
from ktrial.kit.tables import clean
from ktrial.reports.charts.drawing import MARKS
from ktrial.reports.machines import HEADERS, NUMERIC, machine_rows
from ktrial.reports.order import asked_only, by_level, by_weight, explored, short_names
from ktrial.reports.run_conditions import by_arm
from ktrial.reports.sections import pair_name, protocol_rows, tier_rows
from ktrial.reports.sentences import adjusted_words, known_of, made_with, notices
from ktrial.reports.trial_sentences import came_to_rows, course_sentences, placebo_sentences


def step_summary(comparison: Comparison) -> str:
    """The answer, what one would notice, the verdicts, the figures of each arm, and the doubts."""
    comparison = asked_only(comparison)
    found = findings_list(comparison)
    parts = [
        f"### {escaped(comparison.title)}",
        f"**{escaped(comparison.answer)}**",
        f"Scope: {escaped(comparison.scope)}.",
        notice_list(comparison),
        verdict_table(comparison),
        *([tiers] if (tiers := tier_table(comparison)) else []),
        *(f"{escaped(one.name)}:\n\n{arms_table(one)}" for one in comparison.outcomes),
        *([f"Findings:\n\n{found}"] if found else []),
    ]
    return "\n\n".join(parts) + "\n"


#: Characters that mean something in Markdown, in HTML within it, or to a site that shows it.
_SPECIAL = re.compile(r"[\\`*_\[\]<>|~&#@$]|(?<=[a-zA-Z]):(?=//)|(?<=www)\.|^(?:[-+](?=\s|$)|-(?=-)|\d+[.)](?=\s|$))")
_ENTITIES = {
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    "#": "&#35;",
    "@": "&#64;",
    ":": "&#58;",
    ".": "&#46;",
    "$": "&#36;",
}


def escaped(text: str) -> str:
    """Foreign text that stays text: no markup, no link, no mention, no line of its own."""
    return _SPECIAL.sub(lambda found: _ENTITIES.get(found[0], _backslashed(found[0])), clean(text).strip())


def _backslashed(text: str) -> str:
    return f"{text[:-1]}\\{text[-1]}"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, numeric: Sequence[int] = ()) -> str:
    lines = [
        "| " + " | ".join(escaped(name) for name in headers) + " |",
        "|" + "|".join(" ---: " if at in numeric else " --- " for at in range(len(headers))) + "|",
    ]
    lines += ["| " + " | ".join(escaped(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def code_block(lines: Sequence[str], language: str = "sh") -> str:
    """Lines as they are, within a fence that none of them can close."""
    shown = [clean(line) for line in lines]
    longest = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join((fence + language, *shown, fence))


def verdict_table(comparison: Comparison) -> str:
    """Every outcome in every arm, the weightiest first."""
    names = short_names(comparison.outcomes)
    rows: list[tuple[str, ...]] = []
    for outcome in by_weight(comparison.outcomes):
        for contrast in outcome.contrasts:
            estimate, interval = effect_text(contrast.effect, outcome.unit, outcome.direction)
            n = str(contrast.n_arm)
            if contrast.n_arm != contrast.n_control:
                n += f" / {contrast.n_control}"
            verdict = f"{MARKS[contrast.verdict]} {contrast.verdict}"
            rows.append((names[outcome.name], outcome.role, contrast.arm, verdict, estimate, interval, n, contrast.why))
    for row in hole_rows(comparison):
        verdict = f"{MARKS['not comparable']} not comparable"
        n = f"{row.n_arm} / {row.n_control}" if row.n_arm or row.n_control else "0"
        rows.append((names.get(row.name, row.name), "-", row.arm, verdict, "-", "-", n, row.why))
    headers = ("outcome", "role", "arm", "verdict", "change", "interval", "n", "why")
    return table(headers, rows, numeric=(4, 5, 6))


def machine_table(comparison: Comparison) -> str:
    """Each machine by itself and all together; empty where nobody asked for several."""
    rows = machine_rows(comparison)
    return table(HEADERS, rows, numeric=NUMERIC) if rows else ""


def findings_list(comparison: Comparison) -> str:
    """All doubts, the gravest first."""
    every = [("", finding) for finding in comparison.findings]
    for outcome in by_weight(comparison.outcomes):
        every += [(outcome.name, finding) for finding in outcome.findings]
        every += [(outcome.name, finding) for contrast in outcome.judged for finding in contrast.findings]
    every = list({(name, finding.sentence): (name, finding) for name, finding in every}.values())
    place = {id(finding): name for name, finding in every}
    lines = []
    for finding in by_level([finding for _, finding in every]):
        where = f"{escaped(place[id(finding)])}: " if place[id(finding)] else ""
        values = ", ".join(
            f"{name} {value if isinstance(value, str) else f'{value:.4g}'}" for name, value in finding.values.items()
        )
        lines.append(
            f"- **{finding.level}**: {where}{escaped(finding.sentence)}" + (f" ({escaped(values)})" if values else "")
        )
    return "\n".join(lines)


def notice_list(comparison: Comparison) -> str:
    """What one would notice, trade-offs first."""
    lines = [f"- {escaped(one.arm)}, **{one.kind}**: {escaped(one.sentence)}" for one in notices(comparison)]
    return "\n".join(lines) or "Nothing: no outcome is better or worse beyond doubt."


def markdown(comparison: Comparison, charts: Mapping[str, Sequence[tuple[str, str]]] | None = None) -> str:
    """The whole report. `charts` holds (title, address) of pictures by outcome, those of all outcomes under ""."""
    pictures = charts or {}
    others = explored(comparison)
    comparison = asked_only(comparison)
    sections: list[tuple[str, str]] = [
        ("What you would notice", notice_list(comparison)),
        ("Verdicts", f"Each arm against {escaped(comparison.control)}.\n\n{verdict_table(comparison)}"),
        ("Machine by machine", machine_table(comparison)),
        ("Tiers", tier_table(comparison)),
        *trial_sections(comparison),
        ("What was the same, and what was not", _same(comparison)),
        *((f"{name}", _outcome(outcome, pictures.get(outcome.name, ()))) for name, outcome in _named(comparison)),
        ("Other outcomes (exploratory)", explored_table(others)),
        ("Changes of the tunable state", _state(comparison)),
        ("Findings", findings_list(comparison)),
        ("Left out afterwards", _exclusions(comparison)),
        ("Runs", _runs(comparison)),
        ("Protocol, fixed before the first run", _protocol(comparison)),
        ("To get this again", code_block(comparison.reproduce) if comparison.reproduce else ""),
        (
            "Made with",
            "\n".join(f"- {escaped(name)}: {escaped(version)}" for name, version in made_with(comparison)),
        ),
    ]
    head = [
        f"# {escaped(comparison.title)}",
        f"**{escaped(comparison.answer)}**",
        f"Scope: {escaped(comparison.scope)}.",
    ]
    if comparison.accepted is not None:
        head.append(f"Compared although refused: {escaped(comparison.accepted)}")
    head += _images(pictures.get("", ()))
    body = [f"## {escaped(title)}\n\n{text}" for title, text in sections if text]
    return "\n\n".join([*head, *body]) + "\n"


def trial_sections(comparison: Comparison) -> list[tuple[str, str]]:
    """How a trial went, and what its arms came to."""
    trial = comparison.trial
    if trial is None:
        return []
    rows = [(arm, *map("; ".join, told)) for arm, *told in came_to_rows(trial, comparison.control)]
    voids = [(str(one.block), ", ".join(one.order), one.void) for one in trial.drawn if one.void is not None]
    went = [escaped(sentence) for sentence in course_sentences(comparison, trial)]
    went += [table(("void block", "order", "why"), voids)] if voids else []
    arms = [table(("arm", "sets", "in force already", "left out, and why"), rows)]
    arms += [escaped(sentence) for sentence in placebo_sentences(comparison)]
    return [("How it went", "\n\n".join(went)), ("What each arm came to", "\n\n".join(arms))]


def explored_table(outcomes: Sequence[OutcomeComparison]) -> str:
    """Outcomes on which no verdict is given."""
    rows = []
    for outcome in outcomes:
        for one in outcome.contrasts:
            estimate, interval = effect_text(one.effect, outcome.unit, outcome.direction)
            rows.append((outcome.name, one.arm, estimate, interval, str(one.n_arm), one.why))
    return (
        table(("outcome", "arm", "change", "interval", "n", "what is known"), rows, numeric=(2, 3, 4)) if rows else ""
    )


def _named(comparison: Comparison) -> list[tuple[str, OutcomeComparison]]:
    return [(outcome.name, outcome) for outcome in by_weight(comparison.outcomes)]


def _images(pictures: Sequence[tuple[str, str]]) -> list[str]:
    return [f"![{escaped(title)}]({address})" for title, address in pictures]


def _same(comparison: Comparison) -> str:
    known = known_of(comparison)
    parts = []
    if known.different:
        arms = [source.arm for source in comparison.arms]
        rows = [(name, *(dict(values).get(arm, "not known") for arm in arms)) for name, values in known.different]
        parts.append("Found to differ:\n\n" + table(("what", *arms), rows))
    conditions = by_arm(comparison)
    if conditions:
        headers = ("what", *(source.arm for source in comparison.arms))
        parts.append("Conditions of the runs, medians (least to most):\n\n" + table(headers, conditions))
    if known.same:
        lines = [f"- {escaped(name)}: {escaped(value)}" for name, value in known.same]
        parts.append("The same in all arms:\n\n" + "\n".join(lines))
    if known.partly:
        parts.append(f"Not known of every arm, so not compared: {escaped(', '.join(known.partly))}.")
    return "\n\n".join(parts)


def _outcome(outcome: OutcomeComparison, pictures: Sequence[tuple[str, str]]) -> str:
    direction = (
        "Nobody said which way is better"
        if outcome.direction is None
        else f"{outcome.direction} is better".capitalize()
    )
    parts = [f"{direction}; differences below {100 * outcome.margin:g} % do not matter."]
    parts += [escaped(contrast.sentence) for contrast in outcome.judged if contrast.sentence]
    parts.append(arms_table(outcome))
    parts += _images(pictures)
    parts += _tests(outcome) + _pairs(outcome)
    if outcome.blind_spots:
        parts.append(f"What it does not tell: {escaped(outcome.blind_spots)}")
    if outcome.same_as:
        parts.append(f"Says the same, and is not shown: {escaped(', '.join(outcome.same_as))}.")
    return "\n\n".join(parts)


def arms_table(outcome: OutcomeComparison) -> str:
    """The figures of each arm in one outcome."""
    shown = column((one for values in outcome.arms for one in (values.median, values.mean)), outcome.unit)
    rows = []
    for values in outcome.arms:
        told = (values.median, values.mean, values.sd, values.minimum, values.maximum)
        median, mean, sd, smallest, largest = map(shown.show, told)
        rows.append((values.arm, str(values.n), median, mean, sd, percent(values.cv), smallest, largest))
    headers = (f"arm ({shown.unit})", "n", "median", "mean", "sd", "CV", "min", "max")
    return table(headers, rows, numeric=tuple(range(1, 8)))


def _tests(outcome: OutcomeComparison) -> list[str]:
    rows = [
        (
            pair_name(contrast, outcome),
            test.name,
            f"{test.statistic} = {test.value:.4g}",
            *map(p_text, (test.p, test.p_adjusted, test.floor if test.floor_adjusted is None else test.floor_adjusted)),
        )
        for contrast in outcome.judged
        for test in (contrast.test, *contrast.cross_checks)
        if test is not None
    ]
    headers = ("arm", "test", "statistic", "p", "adjusted p", "smallest p possible")
    parts = [table(headers, rows, numeric=(3, 4, 5))] if rows else []
    parts += [f"- {escaped(told)}" for one in outcome.contrasts if (told := adjusted_words(one, outcome)) is not None]
    for one in outcome.anova:
        lines = [
            (
                row.source,
                f"{row.df:g}",
                f"{row.sum_of_squares:.4g}",
                "-" if row.f is None else f"{row.f:.4g}",
                p_text(row.p),
            )
            for row in one.rows
        ]
        parts.append(
            f"{escaped(f'{one.name}. {one.note}' if one.note else one.name)}:\n\n"
            + table(("source", "df", "sum of squares", "F", "p"), lines, numeric=(1, 2, 3, 4))
        )
    return parts


def _pairs(outcome: OutcomeComparison) -> list[str]:
    parts = []
    for family in outcome.pairwise:
        rows = []
        for pair in family.pairs:
            estimate, interval = effect_text(pair.effect, outcome.unit, outcome.direction)
            differs = "yes" if pair.differs else "not shown"
            statistic = f"{pair.statistic:.3g}"
            rows.append((pair.first, pair.second, estimate, interval, statistic, p_text(pair.p_adjusted), differs))
        headers = ("first", "second", "change", "interval", family.statistic, "adjusted p", "differs")
        parts.append(
            f"All pairs, {escaped(family.method)} (a cross-check, no verdict):\n\n"
            + table(headers, rows, numeric=(2, 3, 4, 5))
        )
    return parts


def _state(comparison: Comparison) -> str:
    changes = sorted(comparison.state_changes, key=lambda change: change.declared is not None)
    rows = [
        (
            change.name,
            change.arm,
            *("(absent)" if value is None else value for value in (change.control_value, change.arm_value)),
            "**nobody**" if change.declared is None else change.declared,
        )
        for change in changes
    ]
    if not rows:
        return ""
    return table(("what", "arm", "control", "in the arm", "declared by"), rows).replace(r"\*\*nobody\*\*", "**nobody**")


def _exclusions(comparison: Comparison) -> str:
    if not comparison.exclusions:
        return ""
    lines = []
    for one in comparison.exclusions:
        depends = dependence_words(one.changed, one.moved)
        lines.append(f"- {escaped(f'{one.what}: {one.reason}; {depends}')}")
    if comparison.without is None:
        return "\n".join(lines)
    told = f"With all runs: {escaped(comparison.without.answer)}"
    return "\n\n".join(("\n".join(lines), told, verdict_table(comparison.without)))


def tier_table(comparison: Comparison) -> str:
    """Each tier against the one before it and against the control; empty where arms are no tiers."""
    rows = [
        (
            row.outcome,
            row.tier,
            row.against,
            row.step,
            row.interval,
            f"{MARKS[row.verdict]} {row.verdict}",
            row.total,
            row.total_interval,
            "-" if row.total_verdict is None else f"{MARKS[row.total_verdict]} {row.total_verdict}",
        )
        for row in tier_rows(comparison)
    ]
    to_control = f"to {comparison.control}"
    headers = ("outcome", "tier", "to", "step", "interval", "verdict", to_control, "its interval", "its verdict")
    return table(headers, rows, numeric=(3, 4, 6, 7)) if rows else ""


def _protocol(comparison: Comparison) -> str:
    parts = [] if comparison.protocol_sha256 is None else [f"SHA-256 {escaped(comparison.protocol_sha256)}."]
    if comparison.trial is not None:
        parts.append(code_block(comparison.trial.text.splitlines(), "toml"))
    elif comparison.protocol:
        parts.append(table(("what", "is"), protocol_rows(comparison.protocol)))
    return "\n\n".join(parts)


def _runs(comparison: Comparison) -> str:
    rows = [
        (
            one.arm,
            *(str(number) for number in (one.runs, one.failed, one.void)),
            *("not known" if number is None else str(number) for number in (one.boots, one.machines)),
            ", ".join(one.sources),
        )
        for one in comparison.arms
    ]
    headers = ("arm", "runs", "failed", "void", "boots", "machines", "from")
    told = "`ktrial show RUN` shows a run, `ktrial show RUN --raw stdout` what the tool printed."
    return f"{table(headers, rows, numeric=(1, 2, 3, 4, 5))}\n\n{told}"
