# SPDX-License-Identifier: Apache-2.0
"""Diagnoses as one self-contained HTML file with time line, causes and proposals."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from ktrial.kit import plain_json
from ktrial.kit.html_tags import Markup, Part, tag
from ktrial.reports.charts.drawing import PAGE, Chart, Style, label
from ktrial.reports.charts.svg import inline_svg
from ktrial.reports.html import policy_hash
from ktrial.reports.page.style import STYLE
from ktrial.reports.page.tables import table
from ktrial.watch.diagnosis.devices import HEADERS, device_rows, device_sentences
from ktrial.watch.diagnosis.latencies_chart import latencies_chart
from ktrial.watch.diagnosis.model import Cause, Diagnosis, Worst
from ktrial.watch.diagnosis.page_script import TIMELINE_SCRIPT, TIMELINE_STYLE
from ktrial.watch.diagnosis.tables import (
    CAUSES,
    EPISODES,
    EVENTS,
    beside_rows,
    cause_rows,
    episode_rows,
    event_rows,
    figure_rows,
    phase_cause_rows,
)
from ktrial.watch.diagnosis.text import (
    AGGRESSORS,
    CAUTION,
    SHOWN_EPISODES,
    aggressor_rows,
    cause_sentences,
    episode_sentences,
    not_at_work,
    phase_rows,
    told_by,
    verdict_sentences,
)
from ktrial.watch.diagnosis.timeline_chart import part_of, timeline_chart

_WIDE = 900


def diagnosis_page(found: Sequence[tuple[Diagnosis, Sequence[str]]]) -> str:
    """Return the page with a section for each recording, and a comparison if there are several recordings."""
    style = f"{STYLE}\n{TIMELINE_STYLE}"
    policy = (
        f"default-src 'none'; style-src '{policy_hash(style)}'; script-src '{policy_hash(TIMELINE_SCRIPT)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    title = f"Diagnosis: {', '.join(one.name for one, _ in found)}"
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    sections = [_section(number, one, left_out) for number, (one, left_out) in enumerate(found)]
    beside = _side_by_side([one for one, _ in found]) if len(found) > 1 else None
    footer = tag("footer", tag("p", "Made by ktrial; this file loads no external resources."))
    main = tag("main", tag("h1", title, class_="answer"), sections, beside)
    body = tag("body", main, footer, tag("script", Markup(TIMELINE_SCRIPT)))
    return f"<!DOCTYPE html>\n{tag('html', tag('head', head), body, lang='en')}\n"


def _section(number: int, found: Diagnosis, left_out: Sequence[str]) -> Markup:
    name = f"recording-{number}"
    parts: list[Part] = [tag("h2", found.name, id=name)]
    parts += [tag("p", sentence) for sentence in verdict_sentences(found)]
    if found.late or found.lanes:
        parts.append(_time_line(number, found))
    headers, phases = phase_rows(found)
    parts.append(table("Phases", headers, phases, numeric=(2,)))
    parts += [tag("p", sentence) for sentence in told_by(found)]
    parts += _causes(number, found)
    parts += [tag("p", sentence) for sentence in episode_sentences(found)]
    episodes = episode_rows(found, SHOWN_EPISODES)
    parts.append(table("Episodes", EPISODES, episodes, numeric=(0, 1, 2, 3)) if episodes else None)
    events = event_rows(found)
    parts.append(table("Events", EVENTS, events, numeric=(1, 2, 3, 4)) if events else None)
    grew = aggressor_rows(found)
    parts.append(table("Who grew", AGGRESSORS, grew, numeric=(2, 3)) if grew else None)
    parts += _devices(number, found)
    figures_of, figures = figure_rows(found)
    parts.append(table("Figures", figures_of, figures) if figures else None)
    parts += [tag("p", f"Finding: {finding}") for finding in found.findings]
    parts += [tag("p", f"Note: {note}") for note in found.notes]
    tried = [
        [
            one.knob,
            f"{one.now or '?'} to {one.value}",
            one.why,
            one.price,
            "; ".join(one.evidence) or "none",
            shlex.join(one.try_line),
        ]
        for one in found.proposals
    ]
    asked = ("setting", "change", "why", "price", "evidence", "trial")
    parts.append(table("What could be tried", asked, tried, long=(2, 3, 4, 5)) if tried else None)
    parts += [tag("p", f"Not proposed: {reason}") for reason in left_out]
    return tag("section", parts, aria_labelledby=name)


def _causes(number: int, found: Diagnosis) -> list[Part]:
    rows = cause_rows(found)
    headers, by_phase = phase_cause_rows(found)
    parts: list[Part] = [table("Causes", CAUSES, rows, numeric=(1, 2, 3, 4, 5)) if rows else None]
    parts.append(table("By phase", headers, by_phase, numeric=range(1, len(headers))) if by_phase else None)
    for place, cause in enumerate(found.causes):
        example: list[Part] = [tag("p", sentence) for sentence in cause_sentences(cause)]
        if cause.worst is not None:
            example.append(_example(f"t{number}-{place}", found, cause, cause.worst))
        if cause.standing == "named":
            parts += example
        elif example:
            parts.append(tag("details", tag("summary", f"Not named: {cause.name}"), example))
    return [*parts, *(tag("p", f"{label.capitalize()}: {names}.") for label, names in not_at_work(found))]


def _devices(number: int, found: Diagnosis) -> list[Part]:
    if not found.devices:
        return []
    parts: list[Part] = [table("Block devices", HEADERS, device_rows(found.devices), numeric=(1, 2, 3, 4, 5))]
    parts += [tag("p", sentence) for sentence in device_sentences(found.devices)]
    for place, device in enumerate(found.devices):
        if device.histogram:
            chart = latencies_chart(device, Style(palette=PAGE, width=_WIDE, titled=False))
            parts.append(_figure(f"d{number}-{place}", chart, chart.title))
    return parts


def _example(prefix: str, found: Diagnosis, cause: Cause, worst: Worst) -> Markup:
    """Return a picture of the seconds around one stutter, with the cause's activity to the millisecond."""
    name, around_s = cause.name, worst.around_s
    lanes = tuple(
        msgspec.structs.replace(lane, spans=worst.spans) if lane.cause == cause.id else lane for lane in found.lanes
    )
    found = msgspec.structs.replace(found, lanes=lanes)
    part = part_of(found, worst.begin_s - around_s, worst.begin_s + worst.duration_s + around_s, f"worst of {name}")
    chart = timeline_chart(part, Style(palette=PAGE, width=_WIDE, titled=False))
    return _figure(prefix, chart, f"Worst example of {name}")


def _figure(prefix: str, chart: Chart, title: str, **attributes: str) -> Markup:
    """Return a chart with its title, which is also its text alternative, and the table of its values."""
    return tag(
        "figure",
        tag("p", title, class_="chart", id=f"{prefix}-title"),
        tag("div", Markup(inline_svg(chart, prefix)), class_="plot"),
        tag("figcaption", chart.caption),
        tag("details", tag("summary", f"{title} as a table"), table(title, chart.table.headers, chart.table.rows)),
        **attributes,
    )


def _time_line(number: int, found: Diagnosis) -> Markup:
    """Return the picture, and the data from which the script draws enlarged parts."""
    chart = timeline_chart(found, Style(palette=PAGE, width=_WIDE, titled=False))
    begin_s = min((phase.begin_s for phase in found.phases), default=0.0)
    named = {cause.id for cause in found.named}
    names = {cause.id: label(cause.name, 27) for cause in found.causes}
    told = {
        "begin": begin_s,
        "end": begin_s + max(found.length_s, 1e-3),
        "late": [(round(at_s, 4), round(took_s, 5)) for at_s, took_s in found.late],
        "phases": [(round(phase.begin_s, 3), phase.name) for phase in found.phases],
        "pressures": [{"name": one.name, "step": one.step_s, "values": one.values} for one in found.pressures],
        "lanes": [
            {
                "name": names[lane.cause],
                "named": lane.cause in named,
                "spans": [(round(first, 4), round(last, 4)) for first, last in lane.spans],
            }
            for lane in sorted(found.lanes, key=lambda lane: lane.cause not in named)
        ],
    }
    data = plain_json.line(told).rstrip()
    return _figure(f"t{number}", chart, "Time line", class_="timeline", data_timeline=data)


def _side_by_side(found: Sequence[Diagnosis]) -> Markup:
    """Return the figures side by side, with a caution about differences between sessions."""
    headers, rows = beside_rows(found)
    return tag("section", tag("h2", "Side by side"), tag("p", CAUTION), table("Figures", headers, rows))
