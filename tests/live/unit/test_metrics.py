# SPDX-License-Identifier: Apache-2.0
"""Metrics of live work as users write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput
from ktrial.live.parse import KINDS, note_of_unnamed, open_source, parse_metric, parse_metrics
from tests.support.live import StillClock, world

LOG = r"log:/var/log/app?match=took ([0-9.]+) ms"
SHARE = "log:/l?match=status=([0-9]+)&take=share&of=5.."
FRAMES = "frames:/tmp/game.log?match=(?P<us>[0-9]+) us&take=fps"
SUM = 'prometheus:http://h:9090?query=sum(x{a="b"} == 1)'


@pytest.mark.parametrize(
    "text, name, direction, source, unit",
    [
        (f"p99_ms:lower={LOG}&take=p99", "p99_ms", "lower", f"{LOG}&take=p99", "s"),
        (
            "rps_per_s:higher=openmetrics:http://h/m?name=a_total",
            "rps_per_s",
            "higher",
            "openmetrics:http://h/m?name=a_total",
            "1/s",
        ),
        (SUM, "prometheus", "lower", SUM, "score"),
        ("pid:7?cpu", "pid", "lower", "pid:7?cpu", "ratio"),
        ("log:lower=pid:7?io", "log", "lower", "pid:7?io", "B/s"),
        ("busy_percent:lower=pressure:io?full", "busy_percent", "lower", "pressure:io?full", "ratio"),
        ("command:/bin/queue --of=x", "command", "lower", "command:/bin/queue --of=x", "score"),
        (FRAMES, "frames", "lower", FRAMES, "1/s"),
        (f"errors:lower={SHARE}", "errors", "lower", SHARE, "ratio"),
    ],
)
def test_what_is_written_is_what_is_read(text: str, name: str, direction: str, source: str, unit: str) -> None:
    metric = parse_metric(text)
    assert (metric.name, metric.direction, metric.source) == (name, direction, source)
    outcome = open_source(metric, world(StillClock())).outcome
    assert (outcome.unit, outcome.direction) == (unit, direction)


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "unknown kind"),
        ("p99:less=log:/x?match=(a)", "'less' is not a direction"),
        ("P99:lower=pid:1?cpu", "invalid metric name 'P99'"),
        ("promtheus:http://h", "did you mean prometheus"),
        ("prometheus:http://h", "query= is missing"),
        ("prometheus:ftp://h?query=x", "not an http or https address"),
        ("prometheus:http://h:0?query=x", "has port 0"),
        ("prometheus:http://me:secret@h?query=x", "contain a user name or a password"),
        ("prometheus:http://h?query=x&poll=0", "poll"),
        ("prometheus:http://h?query=x&version=a b", "not the name of a label"),
        ("prometheus:http://h?query=x offset 5m", "another time"),
        ("prometheus:http://h?query=max_over_time(rate(x[1m])[5m:1m])", "subquery"),
        ("openmetrics:http://h/metrics", "name= is missing"),
        ("openmetrics:http://h/metrics?name=a b", "is not the name of a series"),
        ("openmetrics:http://h/metrics?name=a&quantile=99", "quantile"),
        ("log:var/log?match=(a)", "not an absolute path"),
        ("log:/l?match=a", "match 'a' has 0 groups, expected 1"),
        ("log:/l?match=(a)&take=share&of=(b)(c)", "of '(b)(c)' has 2 groups, expected 0 or 1"),
        ("log:/l?match=(", "not a regular expression"),
        ("log:/l?match=(a)&take=p101x", "take=p101x is unknown"),
        ("log:/l?match=(a)&take=share", "require each other"),
        ("log:/l?match=(a)&match=(b)", "given twice"),
        ("command:", "the command is empty"),
        ("command:a | b", "needs a shell"),
        ("command:'a", "no closing quotation"),
        ("pid:0?cpu", "not a process id"),
        ("pid:1", "expected one counter, got 0"),
        ("pid:1?psi", "write psi=cpu"),
        ("pid:1?cpu=2", "takes no value"),
        ("cgroup:/../etc?cpu", "not a control group"),
        ("cgroup:/?psi=cpu", "not a control group"),
        ("cgroup:/a?delay", "unknown option 'delay'"),
        ("pressure:cpu?full", "never waits for a CPU"),
        ("pressure:disk", "reports no pressure"),
        ("pressure:io?full=yes", "expected ?some or ?full, without a value"),
        ("pressure:io?some&full", "expected ?some or ?full, without a value"),
        ("wait_ms:lower=pid:1?delay", "implies the unit s, but this source measures ratio"),
        ("frames:/g?take=stutters", "grows with the length"),
        ("frames:/g?match=([0-9]+)", "named like a unit"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_a_next_step(text: str, says: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_metric(text)
    assert says in f"{error.value.message} {error.value.hint}"
    assert error.value.hint
    assert "--metric" in error.value.message


def test_two_outcomes_have_two_names() -> None:
    with pytest.raises(BadInput, match="both have the name pid"):
        parse_metrics(["pid:1?cpu", "pid:2?cpu"])
    assert len(parse_metrics(["one:lower=pid:1?cpu", "two:lower=pid:2?cpu"])) == 2


def test_what_ktrial_chose_is_said() -> None:
    assert "lower is better" in (note_of_unnamed("pid:1?cpu") or "")
    assert note_of_unnamed("used:lower=pid:1?cpu") is None


@given(
    st.one_of(
        st.text(),
        st.builds("{}:{}".format, st.sampled_from(sorted(KINDS)), st.text(alphabet="ab/:?=&([*+)$.]{}\"'\\ 7")),
    )
)
def test_any_text_is_a_metric_or_bad_input(text: str) -> None:
    try:
        metric = parse_metric(text)
    except BadInput as error:
        assert error.hint
    else:
        assert parse_metric(f"{metric.name}:{metric.direction}={metric.source}") == metric
