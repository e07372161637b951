# SPDX-License-Identifier: Apache-2.0
"""The tools of `ktrial mcp`: the arguments of each, and the only command lines that ktrial builds from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ktrial.cli.mcp.arguments import CLAIM, FACT, KNOB, NAME, OUTCOME, SETTING, SHARE, TOKEN, Parameter
from ktrial.kit.errors import BadInput

Arguments = Mapping[str, Any]
ACTIONS = ("apply", "keep", "try", "live", "trial_run", "revert")

_SETTINGS = Parameter("settings", "Settings KNOB=VALUE, or names of profiles.", SETTING, is_list=True)
_TRIAL = Parameter("trial", "Name of a stored trial; by default the newest.", NAME)
_SOURCES = Parameter("sources", "Labels, sessions or trials in ktrial's store.", NAME, is_list=True, required=True)
_TOKEN = Parameter("token", "Token that `plan` gave for exactly this action and these arguments.", TOKEN, required=True)
_SECONDS = Parameter(
    "seconds", "Seconds after which ktrial reverts the settings; without it they stay.", numbers=(1, 86_400)
)
_SUITE = Parameter("suite", "Suite or benchmark to measure.", NAME)
_BLOCKS = Parameter("blocks", "Maximum number of blocks (rounds).", numbers=(7, 100))
_DETECT = Parameter("detect", "Effect to find, such as 5%.", SHARE)
_PRIMARY = Parameter("primary", "Outcome that decides.", OUTCOME)
_TRANSACTION = Parameter("transaction", "Number of the transaction to undo.", numbers=(1, 1 << 31))
_MINUTES = Parameter("minutes", "Maximum length of a trial on live work, in minutes.", numbers=(1, 7 * 24 * 60))
_PROTOCOL = Parameter("protocol", "Name of a protocol that the operator offers.", NAME)
#: The parameters of each action, besides its token.
ACTION_PARAMETERS: Mapping[str, tuple[Parameter, ...]] = {
    "apply": (_SETTINGS._replace(required=True), _SECONDS),
    "keep": (_SETTINGS._replace(required=True),),
    "try": (
        _SETTINGS._replace(required=True),
        _SUITE._replace(required=True),
        _BLOCKS,
        _DETECT,
        _PRIMARY,
    ),
    "live": (_SETTINGS._replace(required=True), _MINUTES, _DETECT),
    "trial_run": (_PROTOCOL._replace(required=True),),
    "revert": (_TRANSACTION._replace(required=True),),
}


class AgentTool(NamedTuple):
    """A tool; `argv` returns the words after ktrial's global options.

    If `is_long` is set, the command runs as a task, with the operator's words at the end. With `is_file`, the
    answer is the content of the file that the command's last word names. `without_root` holds the words to use
    instead if nobody can become root.
    """

    name: str
    about: str
    parameters: tuple[Parameter, ...]
    argv: Callable[[Arguments], list[str]]
    writes: bool = False
    is_long: bool = False
    is_file: bool = False
    without_root: tuple[str, ...] = ()


def settings_argv(settings: Sequence[str]) -> list[str]:
    """Return settings as words that ktrial cannot read as options."""
    profiles = [one for one in settings if "=" not in one]
    return [*(f"--set={one}" for one in settings if "=" in one), "--", *profiles]


def basis_argv(action: str, arguments: Arguments) -> list[str]:
    """Return the command line that shows what an action would do, and writes nothing."""
    if action == "revert":
        return ["status", "--json"]
    if action == "keep":
        return ["keep", "--dry-run", "--json", *settings_argv(arguments["settings"])]
    return ["plan", "--json", *settings_argv(arguments["settings"])]


def _try_argv(arguments: Arguments) -> list[str]:
    settings = arguments["settings"]
    if wrong := next((one for one in settings if "," in one), None):
        raise BadInput(f"cannot try {wrong}: a comma separates several values", hint="try one value at a time")
    words = [
        *(f"--{'set' if '=' in one else 'profile'}={one}" for one in settings),
        f"--suite={arguments['suite']}",
        f"--budget={arguments.get('blocks', 20)}",
    ]
    words += [f"--{name}={arguments[name]}" for name in ("detect", "primary") if name in arguments]
    return ["try", "--json", *words]


def _live_argv(arguments: Arguments) -> list[str]:
    words = [f"--detect={arguments['detect']}"] if "detect" in arguments else []
    words += [f"--for={arguments['minutes']}m"] if "minutes" in arguments else []
    return ["live", "--json", *words, *(f"--set={one}" for one in arguments["settings"] if "=" in one)]


def _apply_argv(arguments: Arguments) -> list[str]:
    life = [f"--for={arguments['seconds']}s"] if "seconds" in arguments else []
    return ["apply", "--json", *life, *settings_argv(arguments["settings"])]


_READING = (
    AgentTool(
        "doctor",
        "Show what is tuned, and what disturbs measurements.",
        (),
        lambda _: ["doctor", "--json"],
    ),
    AgentTool(
        "facts",
        "Show facts about this machine.",
        (Parameter("prefixes", "Beginnings of names, such as cpu or memory.", FACT, is_list=True, required=True),),
        lambda given: ["facts", "--json", "--", *given["prefixes"]],
    ),
    AgentTool(
        "explain",
        "Explain a knob: effect, price, value here, evidence.",
        (Parameter("knob", "Name of a knob.", KNOB, required=True),),
        lambda given: ["explain", "--json", "--", given["knob"]],
    ),
    AgentTool(
        "why",
        "Show who set a knob.",
        (Parameter("knobs", "Names of knobs.", KNOB, is_list=True, required=True),),
        lambda given: ["why", "--json", "--", *given["knobs"]],
    ),
    AgentTool(
        "suggest",
        "Suggest settings worth a trial on this machine.",
        (Parameter("goal", "Goal to suggest for.", NAME),),
        lambda given: ["suggest", "--json", *([f"--goal={given['goal']}"] if "goal" in given else [])],
    ),
    AgentTool(
        "compare",
        "Compare stored results.",
        (_SOURCES, Parameter("control", "Baseline.", NAME), _PRIMARY),
        lambda given: [
            "compare",
            "--json",
            *(f"--{name}={given[name]}" for name in ("control", "primary") if name in given),
            "--",
            *given["sources"],
        ],
    ),
    AgentTool(
        "claim",
        "Check whether stored results support a claim.",
        (Parameter("claim", "For example: latency p50 -43%.", CLAIM, required=True), _SOURCES),
        lambda given: ["claim", "--json", "--", given["claim"], *given["sources"]],
    ),
    AgentTool(
        "ledger",
        "List what was tried here, with verdicts.",
        (Parameter("knob", "Only this knob.", KNOB),),
        lambda given: ["ledger", "show", "--json", "--", *([given["knob"]] if "knob" in given else [])],
    ),
    AgentTool(
        "report",
        "Return the report of a trial as Markdown.",
        (_TRIAL._replace(required=True),),
        lambda given: ["report", given["trial"], "-o"],
        is_file=True,
    ),
    AgentTool("trials", "List all trials, with verdicts.", (), lambda _: ["trial", "list", "--json"]),
    AgentTool(
        "trial_show",
        "Show what a trial found.",
        (_TRIAL,),
        lambda given: ["trial", "show", *([given["trial"]] if "trial" in given else [])],
    ),
    AgentTool(
        "status",
        "Show what is applied and kept, and open trials.",
        (),
        lambda _: ["status", "--json"],
        without_root=("status", "--json", "--glance"),
    ),
)
PLAN = AgentTool(
    "plan",
    "Show what an action would change, write nothing, and give the token that the action needs.",
    (
        Parameter("action", "What to plan.", choices=ACTIONS, required=True),
        *(_SETTINGS, _SECONDS, _MINUTES, _SUITE, _BLOCKS, _DETECT, _PRIMARY, _TRANSACTION, _PROTOCOL),
    ),
    lambda given: basis_argv(given["action"], given),
)
_WRITING = (
    AgentTool("apply", "Apply settings as one reversible transaction.", ACTION_PARAMETERS["apply"], _apply_argv),
    AgentTool(
        "keep",
        "Make settings last across boots.",
        ACTION_PARAMETERS["keep"],
        lambda given: ["keep", "--json", *settings_argv(given["settings"])],
    ),
    AgentTool(
        "try",
        "Put settings on trial in random blocks; restore everything afterwards.",
        ACTION_PARAMETERS["try"],
        _try_argv,
        is_long=True,
    ),
    AgentTool(
        "live",
        "Put settings on trial on the live work of this machine, by the metrics that the operator chose.",
        ACTION_PARAMETERS["live"],
        _live_argv,
        is_long=True,
    ),
    AgentTool(
        "trial_run",
        "Run the trial of a protocol that the operator offers.",
        ACTION_PARAMETERS["trial_run"],
        lambda given: ["trial", "run", "--json"],
        is_long=True,
    ),
    AgentTool(
        "revert",
        "Undo one transaction.",
        ACTION_PARAMETERS["revert"],
        lambda given: ["revert", "--json", f"--only={given['transaction']}"],
    ),
)
TOOLS: Mapping[str, AgentTool] = {
    one.name: one
    for one in (
        *_READING,
        PLAN,
        *(tool._replace(parameters=(*tool.parameters, _TOKEN), writes=True) for tool in _WRITING),
    )
}
