# SPDX-License-Identifier: Apache-2.0
"""The contents of a report on a comparison, section by section, for every format that has tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ktrial.bench.numbers import column
from ktrial.bench.text import percent
from ktrial.compare.exclusion import changed_verdicts, dependence_words, moved_intervals
from ktrial.compare.missing import hole_rows
from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison, StateChange
from ktrial.judge.model.trial_summary import ToldTrial
from ktrial.judge.model.verdict import Verdict
from ktrial.judge.model.words import effect_text, p_text
from ktrial.kit.finding import Finding
from ktrial.reports.blocks import (
    NO_SUPPLEMENT,
    Block,
    Cell,
    Code,
    Folded,
    Grid,
    Heading,
    Items,
    Pictures,
    ReportSection,
    Stack,
    Styled,
    Supplement,
    Text,
)
from ktrial.reports.machines import HEADERS, NUMERIC, machine_rows, machines_caption
from ktrial.reports.order import asked_only, by_level, by_weight, explored, short_names
from ktrial.reports.run_conditions import by_arm
from ktrial.reports.sentences import (
    adjusted_words,
    came_to_rows,
    course_sentences,
    known_of,
    made_with,
    notices,
    placebo_sentences,
)

#: Section with all doubts.
FINDINGS = "findings"
#: Charts of the whole comparison that have their own section or appear at the top.
PLACED = ("forest", "differences", "course", "visits", "response", "machines")
_MOST_CHANGES = 20
_LEVELS = {"refuse": ("not comparable", "refuse"), "suspect": ("doubt", "doubt"), "note": ("note", "note")}
_CHECKED = {True: "holds", False: "does not hold", None: "cannot be checked"}
_HOLE = Styled("not comparable", "verdict")


def report_sections(
    comparison: Comparison, more: Supplement = NO_SUPPLEMENT, *, charted: int | None = None
) -> list[ReportSection]:
    """Return all sections that have content, in reading order.

    `charted` is the number of outcomes for which the format draws charts, the weightiest first; None means all.
    """
    others = explored(comparison)
    comparison = asked_only(comparison)
    sections = [
        ReportSection("notice", "What you would notice", [notice_list(comparison)]),
        ReportSection("verdicts", "Verdicts", [verdict_grid(comparison)]),
        *_trial(comparison),
        ReportSection("machines", "Machine by machine", _machines(comparison)),
        *more.sections,
        ReportSection("tiers", "Tiers", tier_grids(comparison)),
        ReportSection("same", "What was the same, and what was not", _same_and_different(comparison)),
        ReportSection("together", "Outcomes together", [Pictures()]),
        ReportSection("outcomes", "Outcomes one by one", _outcomes(comparison, charted)),
        ReportSection("explored", "Other outcomes (exploratory)", _explored(others)),
        ReportSection("state", "Changes of the tunable state", _state_changes(comparison.state_changes)),
        ReportSection(FINDINGS, "Findings", findings(comparison)),
        ReportSection("exclusions", "Left out afterwards", _exclusions(comparison)),
        ReportSection("sources", "Where it comes from", _sources(comparison)),
    ]
    return [section for section in sections if section.blocks]


def notice_list(comparison: Comparison) -> Block:
    """Return the noticeable changes, trade-offs first."""
    changes = notices(comparison)
    if not changes:
        return Text("Nothing: no outcome is clearly better or worse.")
    several = len(comparison.arms) > 2
    lines = []
    for one in changes:
        who = (Styled(one.arm, "strong"), ", ") if several else ()
        lines.append((*who, Styled(one.kind, one.kind), f": {one.sentence}"))
    return Items(lines, [one.kind for one in changes])


def anchors(comparison: Comparison) -> dict[str, str]:
    """Return the anchor of each outcome's heading."""
    return {one.name: f"outcome-{place}" for place, one in enumerate(by_weight(comparison.outcomes), 1)}


def verdict_grid(comparison: Comparison) -> Grid:
    """Return a row for every outcome in every arm, the weightiest outcome first."""
    rows: list[tuple[Cell, ...]] = []
    names, places = short_names(comparison.outcomes), anchors(comparison)
    for outcome in by_weight(comparison.outcomes):
        for contrast in outcome.contrasts:
            doubts = sum(finding.level != "note" for finding in contrast.findings)
            why: list[str | Styled] = [contrast.why]
            if contrast.worth is not None:
                why.append(f"; matters: {contrast.worth}")
            if doubts:
                why += ["; ", Styled(f"{doubts} doubt{'s' if doubts > 1 else ''}", "doubt", to=FINDINGS)]
            n = f"{contrast.n_arm} / {contrast.n_control}"
            rows.append(
                (
                    Styled(names[outcome.name], to=places[outcome.name]),
                    outcome.role,
                    contrast.arm,
                    Styled(contrast.verdict, "verdict"),
                    *_change(contrast, outcome),
                    str(contrast.n_arm) if contrast.n_arm == contrast.n_control else n,
                    why,
                )
            )
    for row in hole_rows(comparison):
        name = Styled(names.get(row.name, row.name), to=places.get(row.name))
        n = f"{row.n_arm} / {row.n_control}" if row.n_arm or row.n_control else "0"
        rows.append((name, "-", row.arm, _HOLE, "-", "-", n, row.why))
    headers = ("outcome", "role", "arm", "verdict", "change", "interval", "n", "why")
    equal = next((one.at_equal for one in comparison.outcomes if one.at_equal), ())
    refer = f"are at equal {' and '.join(equal)}" if equal else "refer to the measured value"
    caption = f"Each arm against {comparison.control}. Changes {refer}."
    return Grid(caption, headers, rows, (4, 5, 6), (7,))


def _change(contrast: Contrast, outcome: OutcomeComparison) -> tuple[str, str]:
    return effect_text(contrast.effect, outcome.unit, outcome.direction)


def _trial(comparison: Comparison) -> list[ReportSection]:
    """Return the sections about a trial's course and its arms."""
    trial = comparison.trial
    if trial is None:
        return []
    voids = [(str(one.block), ", ".join(one.order), one.void) for one in trial.drawn if one.void is not None]
    went: list[Block] = [Text(sentence) for sentence in course_sentences(comparison, trial)]
    if voids:
        went.append(Grid("Void blocks, which don't count", ("block", "order", "why"), voids, (0,), (2,)))
    rows: list[tuple[Cell, ...]] = [
        (arm, *(Stack(one) for one in lines)) for arm, *lines in came_to_rows(trial, comparison.control)
    ]
    headers = ("arm", "sets", "already in force", "skipped, and why")
    arms: list[Block] = [Grid("Settings of each arm on this machine", headers, rows, (), (1, 2, 3))]
    arms += [Text(sentence) for sentence in placebo_sentences(comparison)]
    return [
        ReportSection("values", "Value by value", [Pictures(modules=("response",))]),
        ReportSection("course", "Course of the trial", [*went, Pictures(modules=("course", "visits"))]),
        ReportSection("arms", "Settings of each arm", arms),
    ]


def _machines(comparison: Comparison) -> list[Block]:
    """Return a table and charts of the machines; nothing if there is only one."""
    rows = machine_rows(comparison)
    if not rows:
        return []
    return [Grid(machines_caption(comparison), HEADERS, rows, NUMERIC, (6,)), Pictures(modules=("machines",))]


class TierRow(NamedTuple):
    """The results of a tier in one outcome; `total` is its change against the control and may be missing."""

    outcome: str
    tier: str
    against: str
    step: str
    interval: str
    verdict: Verdict
    why: str
    total: str
    total_interval: str
    total_verdict: Verdict | None


def tier_rows(comparison: Comparison) -> list[TierRow]:
    """Return a row for each tier in each outcome; none if the comparison has no tiers."""
    rows = []
    for outcome in by_weight(comparison.outcomes):
        for step in outcome.steps:
            total = next((one for one in outcome.contrasts if one.arm == step.arm), None)
            whole = ("-", "-") if total is None else _change(total, outcome)
            about = (outcome.name, step.arm, step.control, *_change(step, outcome), step.verdict, step.why)
            rows.append(TierRow(*about, *whole, None if total is None else total.verdict))
    return rows


def tier_grids(comparison: Comparison) -> list[Grid]:
    """Return a table of each tier against the tier before it and the control; none if the arms are not tiers."""
    places = anchors(comparison)
    rows = [
        (
            Styled(row.outcome, to=places[row.outcome]),
            *(row.tier, row.against, row.step, row.interval),
            (Styled(row.verdict, "verdict"), " ", Styled(row.why, "about")),
            *(row.total, row.total_interval),
            "-" if row.total_verdict is None else Styled(row.total_verdict, "verdict"),
        )
        for row in tier_rows(comparison)
    ]
    to_control = f"to {comparison.control}"
    headers = ("outcome", "tier", "to", "step", "interval", "verdict", to_control, "its interval", "its verdict")
    caption = "Each tier against the one before it, and against the control."
    return [Grid(caption, headers, rows, (3, 4, 6, 7))] if rows else []


def _same_and_different(comparison: Comparison) -> list[Block]:
    """Return what the arms share, what was changed on purpose, and what else differs."""
    known, arms = known_of(comparison), [source.arm for source in comparison.arms]
    declared = [change for change in comparison.state_changes if change.declared is not None]
    blocks: list[Block] = []
    if known.different:
        rows = [(name, *(dict(values).get(arm, "unknown") for arm in arms)) for name, values in known.different]
        blocks.append(Grid("Differences between arms", ("what", *arms), rows))
    if conditions := by_arm(comparison):
        blocks.append(Grid("Conditions of the runs: median (minimum to maximum)", ("what", *arms), conditions))
    if declared:
        lines = [_on_purpose(change) for change in declared[:_MOST_CHANGES]]
        if len(declared) > _MOST_CHANGES:
            lines.append(f"and {len(declared) - _MOST_CHANGES} more, listed below")
        blocks += [Heading("Changed on purpose"), Items(lines)]
    if known.same:
        blocks.append(Grid("The same in all arms", ("what", "value"), known.same))
    if known.partly:
        blocks.append(Text(f"Unknown for some arms, so not compared: {', '.join(known.partly)}.", "note"))
    return blocks or [Text("The conditions of these runs are unknown, so they were not checked.")]


def _side(value: str | None) -> str:
    return "(absent)" if value is None else value


def _on_purpose(change: StateChange) -> str:
    before, after = _side(change.control_value), _side(change.arm_value)
    return f"{change.name}: {before} \N{RIGHTWARDS ARROW} {after} in {change.arm} (declared by {change.declared})"


def _outcomes(comparison: Comparison, charted: int | None) -> list[Block]:
    places = anchors(comparison)
    blocks: list[Block] = []
    if charted is not None and (more := len(comparison.outcomes) - charted) > 0:
        blocks.append(
            Text(f"The {charted} weightiest outcomes have charts; the other {more} have only tables.", "note")
        )
    for outcome in by_weight(comparison.outcomes):
        anchor = places[outcome.name]
        rules = Text(f"{outcome.rules}.", "note")
        blocks += [Heading((outcome.name, Styled(f" · {outcome.role}", "role")), anchor), rules]
        blocks += [Text(contrast.sentence) for contrast in outcome.judged if contrast.sentence]
        blocks += [arms_grid(outcome, f"{anchor}-runs")] if outcome.arms else []
        if outcome.blind_spots:
            blocks.append(Text(f"What it does not show: {outcome.blind_spots}", "note"))
        if outcome.same_as:
            same = ", ".join(outcome.same_as)
            blocks.append(Text(f"Not shown, because {outcome.name} says the same: {same}.", "note"))
        if behind := [*_methods(outcome), *_tests(outcome), *_checks(outcome), *_anova(outcome), *_pairs(outcome)]:
            blocks.append(Folded(f"How {outcome.name} was judged: tests and assumptions", behind))
        blocks.append(Pictures(outcome.name))
    return blocks


def arms_grid(outcome: OutcomeComparison, runs: str | None = None) -> Grid:
    """Return the figures of each arm; the number of values links to the table with the anchor `runs`."""
    shown = column((one for values in outcome.arms for one in (values.median, values.mean)), outcome.unit)
    rows = []
    for values in outcome.arms:
        figures = (values.median, values.mean, values.sd, values.minimum, values.maximum)
        median, mean, sd, smallest, largest = map(shown.show, figures)
        count = Styled(str(values.n), to=runs)
        rows.append((values.arm, count, median, mean, sd, percent(values.cv), smallest, largest))
    headers = ("arm", "n", "median", "mean", "sd", "CV", "min", "max")
    return Grid(f"Values in {shown.unit}", headers, rows, tuple(range(1, 8)))


def _methods(outcome: OutcomeComparison) -> list[Block]:
    methods = dict.fromkeys(
        f"{contrast.effect.method}, {100 * contrast.effect.confidence:.4g} % interval"
        for contrast in outcome.judged
        if contrast.effect is not None
    )
    return [Text(f"Estimate by {'; '.join(methods)}.")] if methods else []


def _tests(outcome: OutcomeComparison) -> list[Block]:
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
    return [Grid("Tests", headers, rows, (3, 4, 5))] if rows else []


def _checks(outcome: OutcomeComparison) -> list[Block]:
    """Return the assumptions of the tests, and effects adjusted for a covariate."""
    lines = []
    for contrast in outcome.judged:
        for test in (contrast.test, *contrast.cross_checks):
            for check in () if test is None else test.checks:
                name = pair_name(contrast, outcome)
                lines.append(f"{name}: {check.name} {_CHECKED[check.holds]}: {check.sentence}")
        if (adjusted := adjusted_words(contrast, outcome)) is not None:
            lines.append(adjusted)
    return [Items(lines)] if lines else []


def _anova(outcome: OutcomeComparison) -> Iterator[Block]:
    headers = ("source", "df", "sum of squares", "mean square", "F", "p")
    for one in outcome.anova:
        rows = []
        for row in one.rows:
            squares = (f"{row.df:g}", f"{row.sum_of_squares:.4g}", f"{row.mean_square:.4g}")
            rows.append((row.source, *squares, "-" if row.f is None else f"{row.f:.4g}", p_text(row.p)))
        yield Grid(f"{one.name}. {one.note}" if one.note else one.name, headers, rows, (1, 2, 3, 4, 5))


def _pairs(outcome: OutcomeComparison) -> Iterator[Block]:
    for family in outcome.pairwise:
        rows = []
        for pair in family.pairs:
            figures = (f"{pair.statistic:.3g}", p_text(pair.p_adjusted), "yes" if pair.differs else "not shown")
            rows.append((pair.first, pair.second, *effect_text(pair.effect, outcome.unit, outcome.direction), *figures))
        headers = ("first", "second", "change", "interval", family.statistic, "adjusted p", "differs")
        yield Grid(f"All pairs, {family.method} (a cross-check, no verdict)", headers, rows, (2, 3, 4, 5))


def pair_name(contrast: Contrast, outcome: OutcomeComparison) -> str:
    """Return the arm's name, with the name of the arm that it is compared with, unless this is the control."""
    return contrast.arm if contrast in outcome.contrasts else f"{contrast.arm} to {contrast.control}"


def _explored(outcomes: Sequence[OutcomeComparison]) -> list[Block]:
    """Return the figures of exploratory outcomes, without verdicts."""
    rows = [
        (outcome.name, one.arm, *_change(one, outcome), str(one.n_arm), one.why)
        for outcome in outcomes
        for one in outcome.contrasts
    ]
    if not rows:
        return []
    headers = ("outcome", "arm", "change", "interval", "n", "remark")
    figures = [block for outcome in outcomes for block in (Heading(outcome.name, level=4), arms_grid(outcome))]
    return [
        Text("The protocol did not ask for these outcomes, so they get no verdict. To judge one, run a new trial."),
        Grid("Explored outcomes", headers, rows, (2, 3, 4), (5,)),
        Folded("Values of each arm in these outcomes", figures),
    ]


def _state_changes(changes: Iterable[StateChange]) -> list[Block]:
    """Return all differences of the tunable state, undeclared ones first."""
    undeclared: list[tuple[Cell, ...]] = []
    declared: list[tuple[Cell, ...]] = []
    for one in changes:
        row = (one.name, one.arm, _side(one.control_value), _side(one.arm_value))
        if one.declared is None:
            undeclared.append((*row, Styled("nobody", "strong")))
        else:
            declared.append((*row, one.declared))
    headers = ("what", "arm", "control", "in the arm", "declared by")
    blocks: list[Block] = []
    if undeclared:
        count = f"{len(undeclared)} difference{'s' if len(undeclared) > 1 else ''}"
        blocks.append(Text(f"{count} that nobody declared: they may have caused the effect.", "doubt"))
        blocks.append(Grid("Undeclared differences", headers, undeclared))
    return [*blocks, Grid("Declared differences", headers, declared)] if declared else blocks


def findings(comparison: Comparison) -> list[Block]:
    """Return the findings on the whole comparison, then on each outcome, each finding once; the gravest first."""
    blocks: list[Block] = [_findings_list(comparison.findings, {})] if comparison.findings else []
    for outcome in by_weight(comparison.outcomes):
        where: dict[str, list[str]] = {}
        for contrast in outcome.judged:
            for one in contrast.findings:
                where.setdefault(one.sentence, []).append(pair_name(contrast, outcome))
        own = [*outcome.findings, *(one for contrast in outcome.judged for one in contrast.findings)]
        if own:
            once = {finding.sentence: finding for finding in own}
            arms = where if len(outcome.judged) > 1 else {}
            blocks += [Heading(outcome.name), _findings_list(once.values(), arms)]
    return blocks


def _findings_list(every: Iterable[Finding], where: Mapping[str, Sequence[str]]) -> Items:
    """Return a line for each finding; `where` names the arms of a finding that does not apply to all arms."""
    lines = []
    for finding in by_level(every):
        figures = {arm: one if isinstance(one, str) else f"{one:.4g}" for arm, one in finding.values.items()}
        is_said = any(arm in finding.sentence for arm in figures)
        values = "" if is_said else ", ".join(f"{arm} {figure}" for arm, figure in figures.items())
        aside = (Styled(f" ({values})", "note"),) if values else ()
        arms = ", ".join(where.get(finding.sentence, ()))
        place = (Styled(arms, "strong"), ": ") if arms else ()
        lines.append((Styled(*_LEVELS[finding.level]), ": ", *place, finding.sentence, *aside))
    return Items(lines)


def _exclusions(comparison: Comparison) -> list[Block]:
    """Return the runs excluded afterwards, the reasons, and the verdicts that depend on them."""
    if not comparison.exclusions:
        return []
    lines = [
        f"{one.what}: {one.reason} ({len(one.runs)} excluded; {dependence_words(one.changed, one.moved)})"
        for one in comparison.exclusions
    ]
    if comparison.without is None:
        return [Items(lines)]
    whole = Text(f"With all runs: {comparison.without.answer}")
    return [Items(lines), whole, _side_by_side(comparison, comparison.without)]


def _side_by_side(comparison: Comparison, without: Comparison) -> Grid:
    """Return a table of every verdict with the exclusions beside the verdict on all runs."""
    all_runs = {(outcome.name, one.arm): (one, outcome) for outcome in without.outcomes for one in outcome.contrasts}
    depends = {*changed_verdicts(comparison, without), *moved_intervals(comparison, without)}
    rows = []
    for outcome in by_weight(comparison.outcomes):
        for contrast in outcome.contrasts:
            if (other := all_runs.get((outcome.name, contrast.arm))) is None:
                continue
            (change, interval), (change_of_all, interval_of_all) = _change(contrast, outcome), _change(*other)
            rows.append(
                (
                    *(outcome.name, contrast.arm),
                    *(Styled(contrast.verdict, "verdict"), f"{change} ({interval})"),
                    *(Styled(other[0].verdict, "verdict"), f"{change_of_all} ({interval_of_all})"),
                    Styled("yes", "doubt") if outcome.name in depends else "no",
                )
            )
    headers = ("outcome", "arm", "with exclusions", "change", "with all runs", "change of all", "depends on it")
    return Grid("Both results, side by side", headers, rows, (3, 5))


def _sources(comparison: Comparison) -> list[Block]:
    """Return the sources of the runs, the protocol, the commands that reproduce them, and versions."""
    rows = [
        (
            one.arm,
            *map(str, (one.runs, one.failed, one.void)),
            *("unknown" if count is None else str(count) for count in (one.boots, one.machines)),
            ", ".join(one.sources),
        )
        for one in comparison.arms
    ]
    headers = ("arm", "runs", "failed", "void", "boots", "machines", "from")
    show, raw = Styled("ktrial show RUN", "code"), Styled("ktrial show RUN --raw stdout", "code")
    blocks: list[Block] = [
        Grid("Runs of each arm", headers, rows, (1, 2, 3, 4, 5), (6,)),
        Text((show, " shows a run, ", raw, " shows the output of its tool.")),
        *_protocol(comparison, comparison.trial),
    ]
    if comparison.reproduce:
        blocks += [Heading("Commands that reproduce this"), Code(comparison.reproduce)]
    if versions := made_with(comparison):
        blocks += [Heading("Made with"), Grid("Versions", ("what", "version"), versions)]
    return blocks


def _protocol(comparison: Comparison, trial: ToldTrial | None) -> list[Block]:
    """Return the protocol; for a trial, as the file that runs it again."""
    sha256, fixed = comparison.protocol_sha256, Heading("Protocol, fixed before the first run")
    digest = None if sha256 is None else Styled(sha256, "code")
    if trial is not None:
        of = " is the SHA-256 of the protocol, the rules of judgement and the arms' settings. Every run carries it."
        return [fixed, Code(trial.text.split("\n"), "toml"), *([] if digest is None else [Text((digest, of))])]
    blocks: list[Block] = [] if digest is None else [Text(("SHA-256 ", digest))]
    if comparison.protocol:
        blocks.append(Grid("Protocol", ("key", "value"), protocol_rows(comparison.protocol), (), (1,)))
    return [fixed, *blocks] if blocks else []


def protocol_rows(protocol: Mapping[str, Any], above: str = "") -> list[tuple[str, str]]:
    """Return each value of the protocol with its path in the document, such as `design.cap`."""
    rows: list[tuple[str, str]] = []
    for name, value in protocol.items():
        if isinstance(value, Mapping) and value:
            rows += protocol_rows(value, f"{above}{name}.")
        elif isinstance(value, list | tuple):
            rows.append((f"{above}{name}", ", ".join(map(str, value))))
        else:
            rows.append((f"{above}{name}", "-" if value is None or value == {} else str(value)))
    return rows
