# SPDX-License-Identifier: Apache-2.0
"""Sections of a report's page: each is a title and its content, or None where there is nothing to say."""

from __future__ import annotations

from ktrial.compare.exclusion import dependence_words
from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison, StateChange
from ktrial.kit.finding import Finding
from ktrial.kit.html_tags import Markup, Part, tag
from ktrial.reports.order import by_level, by_weight
from ktrial.reports.page.tables import anova_tables, arms_table, exclusions_table, table, tests_table
from ktrial.reports.page.trial import protocol_parts
from ktrial.reports.run_conditions import by_arm
from ktrial.reports.sections import pair_name, protocol_rows
from ktrial.reports.sentences import adjusted_words, known_of, made_with, notices

_MOST_CHANGES = 20
_LEVELS = {"refuse": ("not comparable", "refuse"), "suspect": ("doubt", "doubt"), "note": ("note", "note")}


def notice_list(comparison: Comparison) -> Markup:
    """What one would notice, trade-offs first."""
    found = notices(comparison)
    if not found:
        return tag("p", "Nothing: no outcome is better or worse beyond doubt.")
    several = len(comparison.arms) > 2
    lines = []
    for notice in found:
        word = tag("strong", notice.kind, class_="doubt" if notice.kind == "trade-off" else notice.kind)
        who = [tag("strong", notice.arm), ", "] if several else []
        lines.append(tag("li", who, word, ": ", notice.sentence, class_=f"l-{notice.kind}"))
    return tag("ul", lines, class_="notices")


def same_and_different(comparison: Comparison) -> list[Part]:
    """What was held the same, what was changed on purpose, what was found to differ."""
    known = known_of(comparison)
    declared = [change for change in comparison.state_changes if change.declared is not None]
    parts: list[Part] = []
    if known.different:
        arms = [source.arm for source in comparison.arms]
        rows = [(name, *(dict(values).get(arm, "not known") for arm in arms)) for name, values in known.different]
        parts += [tag("h3", "Found to differ"), table("Differs between arms", ("what", *arms), rows, stack=True)]
    conditions = by_arm(comparison)
    if conditions:
        headers = ("what", *(source.arm for source in comparison.arms))
        parts += [
            tag("h3", "Conditions of the runs"),
            table("Medians (least to most)", headers, conditions, stack=True),
        ]
    if declared:
        lines = [tag("li", _change(change)) for change in declared[:_MOST_CHANGES]]
        if len(declared) > _MOST_CHANGES:
            lines.append(tag("li", f"and {len(declared) - _MOST_CHANGES} more, listed below"))
        parts += [tag("h3", "Changed on purpose"), tag("ul", lines)]
    if known.same:
        rows = [(name, value) for name, value in known.same]
        parts += [tag("h3", "The same in all arms"), table("Held the same", ("what", "value"), rows)]
    if known.partly:
        parts.append(tag("p", f"Not known of every arm, so not compared: {', '.join(known.partly)}.", class_="note"))
    if not parts:
        parts.append(tag("p", "Nothing is known of the conditions of these runs: nothing was checked."))
    return parts


def _change(change: StateChange) -> str:
    before, after = ("(absent)" if one is None else one for one in (change.control_value, change.arm_value))
    return f"{change.name}: {before} \N{RIGHTWARDS ARROW} {after} in {change.arm} (declared by {change.declared})"


def changes_table(caption: str, changes: list[StateChange]) -> Markup:
    rows = [
        (
            change.name,
            change.arm,
            "(absent)" if change.control_value is None else change.control_value,
            "(absent)" if change.arm_value is None else change.arm_value,
            "nobody" if change.declared is None else change.declared,
        )
        for change in changes
    ]
    return table(caption, ("what", "arm", "control", "in the arm", "declared by"), rows, stack=True)


def state_changes(comparison: Comparison) -> list[Part]:
    """All differences of the tunable state, those that nobody declared first."""
    undeclared = [change for change in comparison.state_changes if change.declared is None]
    declared = [change for change in comparison.state_changes if change.declared is not None]
    parts: list[Part] = []
    if undeclared:
        count = len(undeclared)
        told = f"{count} difference{'s' if count > 1 else ''} that nothing declared: the effect may be theirs."
        parts += [tag("p", told, class_="doubt"), changes_table("Undeclared differences", undeclared)]
    if declared:
        parts.append(changes_table("Declared differences", declared))
    return parts


def findings_list(findings: list[Finding]) -> Markup:
    """Doubts, the gravest first, with their values."""
    lines = []
    for finding in by_level(findings):
        word, kind = _LEVELS[finding.level]
        values = ", ".join(f"{arm} {_value(value)}" for arm, value in finding.values.items())
        lines.append(
            tag(
                "li",
                tag("span", word, class_=kind),
                ": ",
                finding.sentence,
                tag("span", f" ({values})", class_="note") if values else None,
            )
        )
    return tag("ul", lines)


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def all_findings(comparison: Comparison) -> list[Part]:
    """Those of the whole comparison, then those of outcomes."""
    parts: list[Part] = [findings_list(list(comparison.findings))] if comparison.findings else []
    for outcome in by_weight(comparison.outcomes):
        own = [*outcome.findings, *(one for contrast in outcome.judged for one in contrast.findings)]
        if own:
            once = {finding.sentence: finding for finding in own}
            parts += [tag("h3", outcome.name), findings_list(list(once.values()))]
    return parts


def outcome_text(outcome: OutcomeComparison, runs: str | None) -> list[Part]:
    """Everything of one outcome but its charts; `runs` is where its runs stand."""
    direction = "nobody said which way is better" if outcome.direction is None else f"{outcome.direction} is better"
    parts: list[Part] = [
        tag("p", f"{direction}; differences below {100 * outcome.margin:g} % do not matter.", class_="note")
    ]
    parts += [tag("p", contrast.sentence) for contrast in outcome.judged if contrast.sentence]
    parts.append(arms_table(outcome, runs))
    if outcome.blind_spots:
        parts.append(tag("p", "What it does not tell: ", outcome.blind_spots, class_="note"))
    if outcome.same_as:
        parts.append(tag("p", f"Says the same, and is not shown: {', '.join(outcome.same_as)}.", class_="note"))
    behind = [*_methods(outcome), tests_table(outcome), *_checks(outcome), *anova_tables(outcome)]
    if any(behind):
        parts.append(
            tag(
                "details",
                tag("summary", f"How {outcome.name} was judged: tests and assumptions"),
                behind,
                class_="small",
            )
        )
    return parts


def _methods(outcome: OutcomeComparison) -> list[Markup]:
    methods = dict.fromkeys(
        f"{contrast.effect.method}, {100 * contrast.effect.confidence:.4g} % interval"
        for contrast in outcome.judged
        if contrast.effect is not None
    )
    return [tag("p", f"Estimate by {'; '.join(methods)}.")] if methods else []


def _checks(outcome: OutcomeComparison) -> list[Markup]:
    lines = []
    for contrast in outcome.judged:
        for check in _checks_of(contrast):
            lines.append(tag("li", f"{pair_name(contrast, outcome)}: ", check))
        if (adjusted := adjusted_words(contrast, outcome)) is not None:
            lines.append(tag("li", adjusted))
    return [tag("ul", lines)] if lines else []


def _checks_of(contrast: Contrast) -> list[str]:
    words = {True: "holds", False: "does not hold", None: "cannot be told"}
    tests = (contrast.test, *contrast.cross_checks)
    found = [check for test in tests if test is not None for check in test.checks]
    return [f"{check.name} {words[check.holds]}: {check.sentence}" for check in found]


def exclusions(comparison: Comparison) -> list[Part]:
    """What was left out afterwards, why, and what depends on it."""
    lines = []
    for one in comparison.exclusions:
        depends = dependence_words(one.changed, one.moved)
        lines.append(tag("li", f"{one.what}: {one.reason} ({len(one.runs)} left out; {depends})"))
    parts: list[Part] = [tag("ul", lines)]
    if comparison.without is not None:
        parts += [
            tag("p", "With all runs: ", comparison.without.answer),
            exclusions_table(comparison, comparison.without),
        ]
    return parts


def sources(comparison: Comparison) -> list[Part]:
    """Where the runs come from, how to see them, how to make them again, and with what they were made."""
    rows = [
        (
            source.arm,
            str(source.runs),
            str(source.failed),
            str(source.void),
            "not known" if source.boots is None else str(source.boots),
            "not known" if source.machines is None else str(source.machines),
            ", ".join(source.sources),
        )
        for source in comparison.arms
    ]
    headers = ("arm", "runs", "failed", "void", "boots", "machines", "from")
    parts: list[Part] = [table("Runs of each arm", headers, rows, numeric=(1, 2, 3, 4, 5), long=(6,), stack=True)]
    parts.append(
        tag(
            "p",
            "Every number has its run in the table below its chart. ",
            tag("code", "ktrial show RUN"),
            " shows that run, ",
            tag("code", "ktrial show RUN --raw stdout"),
            " what the tool printed.",
        )
    )
    parts += _protocol(comparison)
    if comparison.reproduce:
        commands = Markup("\n").join(tag("span", line) for line in comparison.reproduce)
        parts += [tag("h3", "To get this again"), tag("pre", tag("code", Markup(commands)), tabindex=0)]
    if versions := made_with(comparison):
        parts += [tag("h3", "Made with"), table("Versions", ("what", "version"), versions)]
    return parts


def _protocol(comparison: Comparison) -> list[Part]:
    if comparison.trial is not None:
        return protocol_parts(comparison.trial, comparison.protocol_sha256)
    parts: list[Part] = []
    if comparison.protocol or comparison.protocol_sha256 is not None:
        parts.append(tag("h3", "Protocol, fixed before the first run"))
    if comparison.protocol_sha256 is not None:
        parts.append(tag("p", "SHA-256 ", tag("code", comparison.protocol_sha256)))
    if comparison.protocol:
        parts.append(table("Protocol", ("what", "is"), protocol_rows(comparison.protocol), long=(1,)))
    return parts
