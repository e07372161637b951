# SPDX-License-Identifier: Apache-2.0
"""Options that send the results of a running trial elsewhere: a metrics file, an endpoint, annotations in Grafana."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.options import with_options
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ktrial.cli.app import App
    from ktrial.live.results_out import ResultsOut, ResultsWay
    from ktrial.trial.run.events import TrialListener

_META = "ktrial.results-out"
_TOKEN = "KTRIAL_GRAFANA_TOKEN"
_TOKEN_LIMIT_BYTES = 4096
_HERE = "127.0.0.1"
_PORT = re.compile(r"(?:(\[[0-9a-fA-F:.]+\]|[0-9A-Za-z.-]+):)?([0-9]{1,5})")


def _note(ctx: click.Context, option: click.Parameter, given: Any) -> None:
    if given is not None:
        ctx.meta.setdefault(_META, {})[option.name] = given


def _option(name: str, metavar: str, text: str, **more: Any) -> Any:
    return click.option(name, metavar=metavar, expose_value=False, callback=_note, help=text, **more)


results_out_options = with_options(
    _option(
        "--metrics-file",
        "FILE",
        "Write the trial's figures to FILE, for node_exporter's textfile collector.",
        type=click.Path(path_type=Path),
    ),
    _option(
        "--metrics-port",
        "[ADDRESS:]PORT",
        f"Port on which ktrial serves the trial's figures as OpenMetrics (/metrics). ADDRESS is {_HERE} by default.",
    ),
    _option(
        "--grafana",
        "URL",
        f"Grafana server that gets an annotation for each switch and each verdict; {_TOKEN} holds its token.",
    ),
    _option(
        "--grafana-token-file",
        "FILE",
        f"File that holds Grafana's token, instead of {_TOKEN}.",
        type=click.Path(path_type=Path),
    ),
)


def results_out(app: App, listen: TrialListener) -> ResultsOut:
    """Return the listener that passes events on and sends results until the command ends.

    Call its `begins` as soon as the trial has a name. Raise BadInput for options that cannot work.
    """
    from ktrial.live.results_out import ResultsOut

    ctx = click.get_current_context(silent=True)
    if ctx is None or not ctx.meta.get(_META):
        return ResultsOut(listen, (), app.clock, app.say)
    return ctx.with_resource(leaving(app, listen, ctx.meta[_META]))


@contextmanager
def leaving(app: App, listen: TrialListener, options: dict[str, Any]) -> Iterator[ResultsOut]:
    """Open every destination that the options name, and close them at the end."""
    from ktrial.live.results_out import ResultsOut

    ways = _ways(app, options)
    found = ResultsOut(listen, ways, app.clock, app.say)
    try:
        yield found
    finally:
        found.close()


def refuse_results_out(what: str) -> None:
    """Raise BadInput if an option sends results of a trial that continues outside this process."""
    ctx = click.get_current_context(silent=True)
    given = {} if ctx is None else ctx.meta.get(_META, {})
    if given:
        option = next(iter(given)).replace("_", "-")
        raise BadInput(f"cannot combine --{option} with {what}", hint=f"leave out --{option}")


def _ways(app: App, options: dict[str, Any]) -> list[ResultsWay]:
    from ktrial.live.results_out import Grafana, GrafanaAnnotations, MetricsEndpoint, MetricsFile

    token_file: Path | None = options.get("grafana_token_file")
    if token_file is not None and "grafana" not in options:
        raise BadInput("--grafana-token-file requires --grafana", hint="add --grafana URL")
    listener = _address(options["metrics_port"]) if "metrics_port" in options else None
    grafana = Grafana.at(options["grafana"], _token(token_file)) if "grafana" in options else None
    ways: list[ResultsWay] = []
    if "metrics_file" in options:
        ways.append(MetricsFile(options["metrics_file"]))
    if listener is not None:
        endpoint = MetricsEndpoint(*listener)
        app.say(f"figures are at http://{listener[0]}:{endpoint.port}/metrics")
        ways.append(endpoint)
    if grafana is not None:
        ways.append(GrafanaAnnotations(grafana, app.clock))
    return ways


def _address(text: str) -> tuple[str, int]:
    match = _PORT.fullmatch(text)
    if match is None or int(match[2]) > 65535:
        raise BadInput(
            f"--metrics-port {text}: not a port",
            hint="use a port up to 65535, such as 9187, or 0.0.0.0:9187 to admit other machines",
        )
    return (match[1] or _HERE).strip("[]"), int(match[2])


def _token(file: Path | None) -> str:
    from ktrial.kit.files import read_file

    if file is not None:
        return read_file(file, _TOKEN_LIMIT_BYTES).decode(errors="replace").strip()
    if not (token := os.environ.get(_TOKEN, "").strip()):
        raise BadInput(f"--grafana: no token in {_TOKEN}", hint=f"set {_TOKEN}, or add --grafana-token-file FILE")
    return token
