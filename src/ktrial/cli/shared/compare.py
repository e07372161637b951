# SPDX-License-Identifier: Apache-2.0
"""What the commands that compare share: turn words into arms, parse percentages, and call the judge."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import format_names
from ktrial.cli.options import F, frame_logs_option, with_options
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.compare.arms import Arm
    from ktrial.compare.compare import CompareQuery
    from ktrial.compare.sources import ComparedSource, Gathered, ReadingOptions
    from ktrial.judge.model.comparison import Comparison
    from ktrial.judge.model.query import AskedComparison
    from ktrial.kit.outcome import Outcome
    from ktrial.results.ports import ReadResults
    from ktrial.trial.record import StoredTrial

#: Error rate of a comparison, which has 95 % intervals.
ALPHA = 0.05
_PERCENT = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?")
_PATTERN = re.compile(r"[*?[]")
_NAMED = re.compile(r"([^=/]+)=(.+)")


def _once(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> str | None:
    if len(given) > 1:
        raise BadInput(
            f"{option.opts[0]}: expected one value, got {' and '.join(given)}",
            hint=f"give {option.opts[0]} only once",
        )
    return given[0] if given else None


def single(name: str, **settings: Any) -> Callable[[F], F]:
    """Return a decorator that adds an option which may be given only once."""
    return click.option(name, multiple=True, callback=_once, **settings)


table_options = with_options(
    click.option(
        "--format",
        "as_format",
        shell_complete=format_names,
        metavar="FORMAT",
        help="Input format, such as csv or fio.  [detected]",
    ),
    click.option(
        "--value",
        "values",
        multiple=True,
        metavar="COLUMN",
        help="CSV: column with the values, such as 'time(sec)'. Repeatable.",
    ),
    click.option(
        "--where",
        multiple=True,
        metavar="NAME=VALUE",
        help="Use only rows or runs whose column or attribute NAME is VALUE. With several values for one NAME,"
        " any of them may match; with several NAMEs, all must. Repeatable.",
    ),
    single("--groups", metavar="COLUMN,COLUMN", help="CSV: columns of values, one column for each group."),
    single("--by", metavar="NAME[,NAME]", help="Column or attribute whose value names the group of a run."),
    single(
        "--block",
        metavar="NAME",
        help="Column or attribute, such as host, by whose value ktrial pairs runs of different groups.",
    ),
    single("--benchmark", metavar="COLUMN", help="CSV: column with the name of the benchmark."),
    single("--unit", metavar="UNIT", help="CSV: unit of the values, if no header names it."),
    single(
        "--direction",
        type=click.Choice(["lower", "higher"]),
        help="CSV: whether lower or higher values are better.",
    ),
    frame_logs_option,
)


def gathered(app: App, words: Sequence[str], options: dict[str, Any], *, trials: bool = False) -> Gathered:
    """Return the arms that the words name; `options` has the values of `table_options`.

    Raise BadInput for runs of a trial unless `trials` is set.
    """
    from ktrial.compare.sources import gather
    from ktrial.kit.files import read_file
    from ktrial.results.import_file import LIMIT_BYTES

    labels = _Labels(app)
    reading = reading_of(app, options, lambda path: read_file(Path(path), LIMIT_BYTES))
    found = gather([source_of(word, labels) for word in words], lambda: app.store, reading)
    if found.of_trials and not trials:
        raise BadInput(
            f"cannot take runs from {found.of_trials[0]}: it belongs to a trial, which has its own protocol",
            hint="name other data, or use `ktrial trial show` (`ktrial compare --pool` for trials of several machines)",
        )
    return found


def trial_of(app: App, words: Sequence[str]) -> StoredTrial | None:
    """Return the trial that a single word names; None for several words, for no trial, and for a blame's trial.

    A label or session with the same name takes precedence.
    """
    if len(words) != 1 or words[0] in _Labels(app):
        return None
    kept = app.trials.named(words[0])
    return None if kept is None or kept.stored.file.screen is not None else kept.stored


def judge_trial(app: App, trial: StoredTrial, options: Mapping[str, object]) -> Comparison:
    """Judge a trial by its own protocol. Raise BadInput if an option is set: options cannot change the protocol."""
    from ktrial.cli.shared.trial_outcome import load_comparison

    if given := [name for name, value in options.items() if value]:
        raise BadInput(
            f"{trial.trial} is a trial: its protocol decides how it is judged", hint=f"leave out {', '.join(given)}"
        )
    return load_comparison(app, trial)


def reading_of(app: App, options: dict[str, Any], read: Callable[[str], bytes]) -> ReadingOptions:
    """Return how to read result files. `read` returns a file's bytes; `options` has the values of `table_options`."""
    from ktrial.compare.sources import ReadingOptions
    from ktrial.judge.model.query import ImportOptions

    importing = ImportOptions.given({name: value for name, value in options.items() if name != "as_format"})
    return ReadingOptions(options=importing, as_format=options["as_format"], importers=app.importers, read=read)


class _Labels:
    """Labels and sessions of the store, looked up only if a word may name one."""

    def __init__(self, app: App) -> None:
        self._app = app

    def __contains__(self, word: str) -> bool:
        return any(word in (one.label, one.session) for one in self._app.store.sessions())

    def session_of(self, word: str) -> str:
        """Return a trial's session if the word names only a trial, otherwise the word itself."""
        if word in self:
            return word
        trial = self._app.trials.named(word)
        return word if trial is None else trial.stored.session


def source_of(word: str, labels: object = ()) -> ComparedSource:
    """Parse `LABEL`, `SESSION`, `FILE`, or one of them as `NAME=…`; a file name may be a pattern."""
    from ktrial.compare.sources import ComparedSource

    found = _NAMED.fullmatch(word)
    if found is not None and not Path(word).exists():
        files = _files(found[2])
        return ComparedSource(
            word=word, name=found[1], target=found[2] if files else _target(found[2], labels), files=files
        )
    files = _files(word)
    if files and "/" not in word and "." not in word and word in labels:  # type: ignore[operator]
        raise BadInput(f"{word!r} is both a label and a file", hint=f"use ./{word} for the file, or rename the file")
    return ComparedSource(word=word, name=None, target=word if files else _target(word, labels), files=files)


def _target(word: str, labels: object) -> str:
    return labels.session_of(word) if isinstance(labels, _Labels) else word


def _files(target: str) -> tuple[str, ...]:
    """Return the files that a word names, or none if it names something in the store."""
    path = Path(target)
    if path.exists() or not _PATTERN.search(target):
        return (target,) if path.exists() or target.startswith(("/", "./", "../")) else ()
    found = sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor) if path.anchor else path)))
    if not found:
        raise BadInput(f"{target}: no file matches this pattern", hint="check the folder and the pattern")
    return tuple(map(str, found))


def share(text: str | None, option: str) -> float | None:
    """Return `2%` as 0.02, and None for None. Raise BadInput unless the share is above 0 and at most 1000 %."""
    if text is None:
        return None
    found = _PERCENT.fullmatch(text.strip().removesuffix("%").rstrip())
    value = float(found[0]) / 100 if found is not None else 0.0
    if not 0 < value <= 10:
        raise BadInput(
            f"{option}: expected a percentage above 0 and at most 1000, got {text}", hint=f"for example  {option} 2%"
        )
    return value


def compared(
    app: App,
    arms: Sequence[Arm],
    control: str | None,
    query: CompareQuery,
    declared: Iterable[str],
    swing: float,
    *,
    assumptions: bool = True,
    alpha: float = ALPHA,
) -> Comparison:
    """Compare these arms. Checking the `assumptions` of the tests loads a slow library."""
    import msgspec

    from ktrial.compare.compare import About, compare, foreign_judge
    from ktrial.compare.sources import pick_control
    from ktrial.compare.states import split_declared, state_changes

    first, others = pick_control(arms, control)
    given = tuple(declared)
    keys, declarations = split_declared(given, app.catalog) if given else ((), ())
    about = About(outcomes=_outcomes(app, arms), state_changes=state_changes(first, others, declarations))
    judge = foreign_judge(swing, assumptions=assumptions, alpha=alpha)
    return compare(first, others, msgspec.structs.replace(query, declared=keys), about, judge)


def as_protocols_say(app: App, sessions: Sequence[str], question: AskedComparison) -> AskedComparison:
    """Return the question, with every open option taken from the protocols of these sessions' trials."""
    import msgspec

    from ktrial.trial.outcome.pool import pooled_question

    if not sessions:
        return question
    trials = []
    for session in sessions:
        found = app.trials.of_session(session)
        if not found:
            raise BadInput(
                f"{app.store.shown} has the runs of {session} but not their trial",
                hint="import a bundle of the trial, made by `ktrial bundle OUT.tar.zst TRIAL`",
            )
        trials.append(found[0])
    fixed = pooled_question(trials)
    return msgspec.structs.replace(
        question,
        control=question.control or fixed.control,
        primary=question.primary or fixed.primary,
        margin=question.margin or fixed.margin,
        declared=(*question.declared, *(key for key in fixed.declared if key not in question.declared)),
    )


def answer_comparison(
    app: App,
    arms: Sequence[Arm],
    question: AskedComparison,
    reproduce: tuple[str, ...],
    versions: Mapping[str, str],
    *,
    assumptions: bool = True,
    alpha: float = ALPHA,
) -> Comparison:
    """Compare these arms, and store the question in the answer."""
    import msgspec

    from ktrial.compare.compare import CompareQuery
    from ktrial.kit.own_code import code_sha256

    query = CompareQuery(
        margin=question.margin,
        primary=question.primary,
        accepted=question.accepted,
        tiers=question.tiers,
        pool=question.pool is True,
        excluded=question.excluded,
        reproduce=reproduce,
        versions=versions,
    )
    found = compared(
        app, arms, question.control, query, question.declared, question.spread, assumptions=assumptions, alpha=alpha
    )
    # A comparison that is only printed is never compared with a later one, so it needs no digest of the code.
    writer = code_sha256() if assumptions else None
    return msgspec.structs.replace(found, asked=question, asked_sha256=question.sha256, writer=writer)


def answered_again(app: App, published: Comparison, results: ReadResults, read: Callable[[str], bytes]) -> Comparison:
    """Compute a published comparison once more, from these results and the files that `read` returns."""
    import msgspec

    from ktrial.compare.sources import gather_again

    question = published.asked
    assert question is not None, "without its question a comparison cannot be computed again"
    options = {"as_format": question.as_format, **msgspec.structs.asdict(question.options)}
    arms = gather_again(question.sources, results, reading_of(app, options, read))
    return answer_comparison(app, arms, question, published.reproduce, published.versions)


def _outcomes(app: App, arms: Sequence[Arm]) -> dict[tuple[str, str], Outcome]:
    """Return the outcomes that the benchmarks of these runs declare. Files of other tools need no benchmark."""
    tools = {run.tool for arm in arms for run in arm.runs} - {None}
    if not tools:
        return {}
    return {
        (name, outcome.name): outcome
        for name, benchmark in app.benchmarks.items()
        if name in tools
        for outcome in benchmark.outcomes
    }


def exclusions(words: Sequence[str], arms: Sequence[Arm]) -> dict[str, str]:
    """Parse `RUN:REASON` into a map from run to reason; a run's name may contain a colon.

    Raise BadInput for a run that failed.
    """
    failed = {run.name for arm in arms for run in arm.runs if run.failure is not None}
    names = sorted((run.name for arm in arms for run in arm.runs), key=len, reverse=True)
    found: dict[str, str] = {}
    for word in words:
        name = next((name for name in names if word.startswith(f"{name}:")), word.partition(":")[0])
        reason = word[len(name) + 1 :].strip()
        if not reason:
            raise BadInput(f"--exclude: expected RUN:REASON, got {word}", hint=f"write --exclude '{name}:REASON'")
        if name in failed:
            raise BadInput(
                f"cannot exclude {name}: it failed, and failures are part of the result",
                hint=f"leave out --exclude {name}",
            )
        found[name] = reason
    return found


#: Options that do not change the result.
_NOT_ASKED = {"as_json", "output", "force"}


def reproducible() -> tuple[str, ...]:
    """Return the current command line, with which users can reproduce the result."""
    import shlex

    context = click.get_current_context()
    words = ["ktrial"]
    store = context.find_root().params.get("store")
    words += ["--store", store] if store and "://" not in store else []  # a URL may hold a password
    words.append(context.info_name or "")
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        if value in (None, (), False) or value == parameter.default or parameter.name in _NOT_ASKED:
            continue
        option = [] if isinstance(parameter, click.Argument) else [parameter.opts[0]]
        for one in value if isinstance(value, tuple) else (value,):
            words += option if one is True else [*option, str(one)]
    return (shlex.join(words),)


def versions() -> dict[str, str]:
    import numpy as np
    import scipy

    from ktrial import __version__

    return {"ktrial": __version__, "numpy": np.__version__, "scipy": scipy.__version__}
