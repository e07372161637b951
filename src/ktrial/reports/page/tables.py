# SPDX-License-Identifier: Apache-2.0
"""Tables of a report's page."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.bench.numbers import column
from ktrial.bench.text import percent
from ktrial.compare.exclusion import changed, moved
from ktrial.compare.missing import hole_rows
from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.verdict import Verdict
from ktrial.judge.model.words import effect_text, p_text
from ktrial.kit.html_tags import Markup, Part, tag
from ktrial.reports.charts.drawing import MARKS, Cast, Chart
from ktrial.reports.machines import HEADERS, NUMERIC, machine_rows
from ktrial.reports.order import by_weight, short_names
from ktrial.reports.sections import pair_name, tier_rows

_CLASSES: dict[Verdict, str] = {
    "better": "better",
    "worse": "worse",
    "equivalent": "equal",
    "different": "open",
    "no difference seen": "open",
    "inconclusive": "open",
    "not comparable": "open",
}
#: From how many rows on a table scrolls within itself.
_LONG = 25


def verdict(word: Verdict) -> Markup:
    """A verdict with its mark; the mark is not read aloud."""
    return tag("span", tag("span", MARKS[word], aria_hidden="true"), " ", word, class_=f"verdict {_CLASSES[word]}")


def table(
    caption: Part,
    headers: Sequence[str],
    rows: Sequence[Sequence[Part]],
    *,
    numeric: Sequence[int] = (),
    long: Sequence[int] = (),
    stack: bool = False,
    classes: Sequence[str] = (),
) -> Markup:
    """A table that can be sorted. `numeric` columns are aligned to the right, `long` ones hold sentences.

    With `stack` each row is a block of its own on a narrow screen. `classes` are of the rows.
    """
    kinds = ["n" if at in numeric else "t" if at in long else None for at in range(len(headers))]
    head = tag("tr", [tag("th", name, scope="col", class_=kind) for name, kind in zip(headers, kinds, strict=True)])
    lines = []
    for place, row in enumerate(rows):
        cells = [tag("th", row[0], scope="row")] if kinds[0] is None else [tag("td", row[0], class_=kinds[0])]
        for cell, kind, name in zip(row[1:], kinds[1:], headers[1:], strict=True):
            cells.append(tag("td", cell, class_=kind, data_h=name if stack else None))
        lines.append(tag("tr", cells, class_=classes[place] if classes else None))
    whole = tag(
        "table",
        tag("caption", caption) if caption else None,
        tag("thead", head),
        tag("tbody", lines),
        class_="sort stack" if stack else "sort",
    )
    shown = caption if isinstance(caption, str) else headers[0]
    kind = "scroll long" if len(rows) > _LONG else "scroll"
    return tag("div", whole, class_=kind, tabindex=0, role="region", aria_label=f"table: {shown}")


def twin(chart: Chart, cast: Cast) -> Markup:
    classes = []
    if chart.arm_column is not None:
        numbers = [
            cast.number(row[chart.arm_column]) if row[chart.arm_column] in cast.arms else 0 for row in chart.table.rows
        ]
        classes = [f"r{number}" for number in numbers]
    return table(chart.title, chart.table.headers, chart.table.rows, numeric=chart.table.numeric, classes=classes)


def verdict_table(comparison: Comparison, places: dict[str, str]) -> Markup:
    """Every outcome in every arm; `places` holds the anchor of each outcome."""
    rows: list[tuple[Part, ...]] = []
    names = short_names(comparison.outcomes)
    for outcome in by_weight(comparison.outcomes):
        for contrast in outcome.contrasts:
            estimate, interval = effect_text(contrast.effect, outcome.unit, outcome.direction)
            doubts = [finding for finding in contrast.findings if finding.level != "note"]
            why: list[Part] = [contrast.why]
            if contrast.worth is not None:
                why.append(f"; matters: {contrast.worth}")
            if doubts:
                why.append(tag("span", f"; {len(doubts)} doubt{'s' if len(doubts) > 1 else ''}", class_="doubt"))
            shown = names[outcome.name]
            about = outcome.role if shown != outcome.outcome else f"{outcome.benchmark}, {outcome.role}"
            rows.append(
                (
                    [tag("a", shown, href=f"#{places[outcome.name]}"), " ", tag("span", about, class_="about")],
                    contrast.arm,
                    verdict(contrast.verdict),
                    estimate,
                    interval,
                    _counts(contrast),
                    why,
                )
            )
    for row in hole_rows(comparison):
        shown = names.get(row.name, row.name)
        link = tag("a", shown, href=f"#{places[row.name]}") if row.name in places else shown
        n = f"{row.n_arm} / {row.n_control}" if row.n_arm or row.n_control else "0"
        rows.append((link, row.arm, verdict("not comparable"), "-", "-", n, row.why))
    headers = ("outcome", "arm", "verdict", "change", "interval", "n", "why")
    return table(
        f"Each arm against {comparison.control}. Changes are of the measured value.",
        headers,
        rows,
        numeric=(3, 4, 5),
        long=(6,),
        stack=True,
    )


def machines_table(comparison: Comparison) -> Markup | None:
    """Each machine by itself, all together, and one more; None where nobody asked for several."""
    rows = machine_rows(comparison)
    caption = "Each machine by itself, the mean of all, and what to expect on one more."
    return table(caption, HEADERS, rows, numeric=NUMERIC, long=(6,), stack=True) if rows else None


def tiers_table(comparison: Comparison, places: dict[str, str]) -> Markup | None:
    """Each tier against the one before it and against the control; None where arms are no tiers."""
    rows = [
        (
            tag("a", row.outcome, href=f"#{places[row.outcome]}"),
            row.tier,
            row.against,
            row.step,
            row.interval,
            [verdict(row.verdict), " ", tag("span", row.why, class_="about")],
            row.total,
            row.total_interval,
            "-" if row.total_verdict is None else verdict(row.total_verdict),
        )
        for row in tier_rows(comparison)
    ]
    to_control = f"to {comparison.control}"
    headers = ("outcome", "tier", "to", "step", "interval", "verdict", to_control, "its interval", "its verdict")
    caption = "Each tier against the one before it, and against the control."
    return table(caption, headers, rows, numeric=(3, 4, 6, 7), stack=True) if rows else None


def _counts(contrast: Contrast) -> str:
    if contrast.n_arm == contrast.n_control:
        return str(contrast.n_arm)
    return f"{contrast.n_arm} / {contrast.n_control}"


def arms_table(outcome: OutcomeComparison, runs: str | None) -> Markup:
    """The values of each arm; its count leads to its `runs`."""
    shown = column((one for values in outcome.arms for one in (values.median, values.mean)), outcome.unit)
    rows = []
    for values in outcome.arms:
        told = (values.median, values.mean, values.sd, values.minimum, values.maximum)
        median, mean, sd, smallest, largest = map(shown.show, told)
        count = str(values.n) if runs is None else tag("a", str(values.n), href=f"#{runs}", title="its runs")
        rows.append((values.arm, count, median, mean, sd, percent(values.cv), smallest, largest))
    headers = ("arm", "n", "median", "mean", "sd", "CV", "min", "max")
    return table(f"Values in {shown.unit}", headers, rows, numeric=tuple(range(1, 8)), stack=True)


def tests_table(outcome: OutcomeComparison) -> Markup | None:
    rows = []
    for contrast in outcome.judged:
        for test in (*((contrast.test,) if contrast.test is not None else ()), *contrast.cross_checks):
            rows.append(
                (
                    pair_name(contrast, outcome),
                    test.name,
                    f"{test.statistic} = {test.value:.4g}",
                    p_text(test.p),
                    p_text(test.p_adjusted),
                    p_text(test.floor if test.floor_adjusted is None else test.floor_adjusted),
                )
            )
    if not rows:
        return None
    headers = ("arm", "test", "statistic", "p", "adjusted p", "smallest p possible")
    return table("Tests", headers, rows, numeric=(3, 4, 5), stack=True)


def anova_tables(outcome: OutcomeComparison) -> list[Markup]:
    made = []
    for one in outcome.anova:
        rows = [
            (
                row.source,
                f"{row.df:g}",
                f"{row.sum_of_squares:.4g}",
                f"{row.mean_square:.4g}",
                "-" if row.f is None else f"{row.f:.4g}",
                p_text(row.p),
            )
            for row in one.rows
        ]
        headers = ("source", "df", "sum of squares", "mean square", "F", "p")
        caption = f"{one.name}. {one.note}" if one.note else one.name
        made.append(table(caption, headers, rows, numeric=(1, 2, 3, 4, 5)))
    return made


def exclusions_table(comparison: Comparison, without: Comparison) -> Markup:
    """Every verdict with the exclusions beside that with all runs."""
    all_runs = {
        (outcome.name, contrast.arm): (outcome, contrast)
        for outcome in without.outcomes
        for contrast in outcome.contrasts
    }
    rows = []
    depends = {*changed(comparison, without), *moved(comparison, without)}
    for outcome in by_weight(comparison.outcomes):
        for contrast in outcome.contrasts:
            other = all_runs.get((outcome.name, contrast.arm))
            if other is None:
                continue
            here = effect_text(contrast.effect, outcome.unit, outcome.direction)
            there = effect_text(other[1].effect, other[0].unit, other[0].direction)
            rows.append(
                (
                    outcome.name,
                    contrast.arm,
                    verdict(contrast.verdict),
                    f"{here[0]} ({here[1]})",
                    verdict(other[1].verdict),
                    f"{there[0]} ({there[1]})",
                    tag("span", "yes", class_="doubt") if outcome.name in depends else "no",
                )
            )
    headers = ("outcome", "arm", "with exclusions", "change", "with all runs", "change of all", "depends on it")
    return table("Both results, side by side", headers, rows, numeric=(3, 5), stack=True)
