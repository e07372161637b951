# SPDX-License-Identifier: Apache-2.0
"""Builds the kernels of arms like `ktrial kernel build`, each one once, in the cache."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ktrial.agent.user_folders import cache_folder
from ktrial.cli.shared.kernel_build import build_order, launched, launcher_of, order_of, stamped, tools_of
from ktrial.cli.shared.kernel_config import Wishes, prepared
from ktrial.kernels.build.built_kernels import UNUSED_DAYS
from ktrial.kernels.build.make_kernel import build_key, make_variables
from ktrial.kernels.build.run_build import RoomMissing, drop_objects
from ktrial.kit.errors import Refused
from ktrial.trial.guests.guest_kernels import KernelBuilder, KernelPlan

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.cli.shared.kernel_config import PreparedKernel
    from ktrial.kernels.build_record import Tool
    from ktrial.trial.guests.recipe import KernelRecipe


class _Planned(NamedTuple):
    """A kernel plan with everything that its build needs.

    `known` is true if the key identifies the sources completely.
    """

    plan: KernelPlan
    ready: PreparedKernel
    tools: tuple[Tool, ...]
    folder: Path
    known: bool


def workshop_of(app: App) -> KernelBuilder:
    if app.kernels.workshop is None:
        app.kernels.workshop = KernelWorkshop(app)
    return app.kernels.workshop


class KernelWorkshop:
    """Plans each recipe once, and builds its kernel in the cache. Implements `KernelBuilder`."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._launcher = launcher_of("auto", distributed=False)
        self._planned: dict[bytes, _Planned] = {}

    def plan(self, recipe: KernelRecipe) -> KernelPlan:
        key = _recipe_key(recipe)
        if key not in self._planned:
            self._planned[key] = self._plan(recipe)
        return self._planned[key].plan

    def _plan(self, recipe: KernelRecipe) -> _Planned:
        wishes = Wishes(
            tree=recipe.tree,
            output=Path(),
            base=recipe.config,
            fragments=recipe.fragments,
            settings=tuple(f"{symbol}={value}" for symbol, value in recipe.set.items()),
            patches=recipe.patches,
            cc=recipe.cc,
            anyway=False,
        )
        optimise = None if recipe.optimise is None else str(recipe.optimise)
        ready = prepared(self._app, wishes, target=recipe.target, optimise=optimise)
        tools = tools_of(ready, launched(self._launcher))
        make = make_variables(ready.toolchain, ready.architecture, None, ready.flagged, ready.optimise)
        sure = build_key(stamped(ready.opened.source), ready.configured, tools, make)
        parts = (recipe, ready.configured.sha256, tools, str(ready.opened.folder))
        key = sure or hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:24]
        folder = self._folder(key)
        made = self._app.kernels.built.at(folder) if sure is not None else None
        if made is not None:
            self._app.kernels.built.use(folder)
        plan = KernelPlan(
            recipe=recipe,
            version=ready.opened.source.version,
            key=key,
            compiled=_compiled(ready, tools),
            image=None if made is None else made.image,
            symbols=ready.configured.symbols,
        )
        return _Planned(plan, ready, tools, folder, sure is not None)

    @staticmethod
    def _folder(key: str) -> Path:
        return cache_folder() / "kernels" / f"built-{key}"

    def check_room(self, plans: Sequence[KernelPlan]) -> None:
        from ktrial.kernels.build.run_build import check_room

        symbols = [self._of(plan).ready.configured.symbols for plan in plans]
        with _room_explained():
            check_room(self._folder("").parent, symbols, len(os.sched_getaffinity(0)))

    def build(self, plan: KernelPlan) -> str:
        """Build the kernel, unless another process has built it meanwhile. Return the path of the image."""
        planned = self._of(plan)
        with _locked(planned.folder):
            made = self._app.kernels.built.at(planned.folder) if planned.known else None
            if made is None:
                order = order_of(self._app, planned.ready, planned.tools, planned.folder, launcher=self._launcher)
                with _room_explained():
                    made = build_order(self._app, planned.ready, order, planned.folder)
                if planned.known:
                    drop_objects(planned.folder)
                self._drop_unused(planned.folder)
            self._app.kernels.built.use(planned.folder)
        self._planned[_recipe_key(plan.recipe)] = planned._replace(plan=plan._replace(image=made.image))
        return made.image

    def _drop_unused(self, used: Path) -> None:
        """Remove builds last used long before the build `used`, except builds in progress."""
        for folder in self._app.kernels.built.unused(used):
            with contextlib.suppress(Refused), _locked(folder):
                shutil.rmtree(folder, ignore_errors=True)
                result = "cannot remove all of" if folder.exists() else "removed"
                self._app.say(f"{result} {folder.name}, which was not used for {UNUSED_DAYS} days")

    def _of(self, plan: KernelPlan) -> _Planned:
        return self._planned[_recipe_key(plan.recipe)]


def _recipe_key(recipe: KernelRecipe) -> bytes:
    return msgspec.json.encode(recipe, order="deterministic")


def _compiled(ready: PreparedKernel, tools: Sequence[Tool]) -> dict[str, str]:
    """Return the compile settings whose effect an exact guest does not show."""
    symbols = ready.configured.symbols
    lto = next((name for name in ("FULL", "THIN") if symbols.get(f"LTO_CLANG_{name}") == "y"), "none")
    smallest = symbols.get("CC_OPTIMIZE_FOR_SIZE") == "y"
    return {
        "compilers": next(tool.said for tool in tools if tool.role == "compiler"),
        "LTO": lto.lower(),
        "CPUs that they are optimised for": "those of the configuration"
        if ready.flagged is None
        else ready.flagged.name,
        "optimisation": f"-O{ready.optimise or ('s' if smallest else '2')}",
    }


@contextlib.contextmanager
def _room_explained() -> Iterator[None]:
    """Replace the hint of RoomMissing, because no option sets the folder or the jobs of a trial's kernels."""
    try:
        yield
    except RoomMissing as error:
        error.hint = (
            "free some space or memory, set XDG_CACHE_HOME to a folder on a larger disk, "
            "or leave out the fragments lto-thin and btf"
        )
        raise


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with folder.with_name(f"lock-{folder.name}").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"cannot build in {folder}: another ktrial builds there", hint="wait until that build ends"
            ) from None
        yield
