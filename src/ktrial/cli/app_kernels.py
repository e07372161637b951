# SPDX-License-Identifier: Apache-2.0
"""Creates the adapters of `ktrial.kernels` when they are first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ktrial.agent.user_folders import cache_folder, state_folder

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from ktrial.agent.carrier import AgentCarrier, CarriedTransport
    from ktrial.agent.session import AgentSession
    from ktrial.guests.boot import Guests
    from ktrial.guests.lab import Lab
    from ktrial.kernels.build.built_kernels import BuiltKernels
    from ktrial.kernels.build.patches import Patches
    from ktrial.kernels.build.probe_build import ProbeBuild
    from ktrial.kernels.build.sources import Sources
    from ktrial.kernels.build.tree import SourceTree
    from ktrial.kernels.config.configure import Configuring
    from ktrial.kernels.config.reasons import KnownSymbols
    from ktrial.kernels.images.images import Images, KernelFiles
    from ktrial.kernels.uarch.compilers import Compilers
    from ktrial.trial.guests.guest_kernels import KernelBuilder
    from ktrial.tuning.catalog.model import Catalog

Role = Literal["root", "user"]


class Kernels:
    """Adapters for the verbs of `ktrial kernel`; `say` prints to the user, `catalog` returns the knobs for guests."""

    def __init__(self, say: Callable[[str], None], catalog: Callable[[], Catalog]) -> None:
        self._say = say
        self._catalog = catalog
        #: Builds the kernels of arms; `workshop_of` creates it.
        self.workshop: KernelBuilder | None = None

    @cached_property
    def compilers(self) -> Compilers:
        from ktrial.kernels.uarch.compilers import Compilers
        from ktrial.kernels.uarch.target_files import load_targets

        return Compilers(cache_folder() / "compilers", load_targets(), self._say)

    @cached_property
    def _arm_compilers(self) -> Compilers:
        from ktrial.kernels.uarch.compilers import ARM64, Compilers
        from ktrial.kernels.uarch.target_files import load_cpu_targets

        return Compilers(cache_folder() / "compilers", load_cpu_targets(), self._say, ARM64)

    def compilers_for(self, arch: str) -> Compilers:
        """Return this machine's compilers for an architecture, named as in kbuild (`arm64`)."""
        return self._arm_compilers if arch == "arm64" else self.compilers

    @staticmethod
    def tree(folder: Path) -> SourceTree:
        from ktrial.kernels.build.tree import SourceTree
        from ktrial.kernels.uarch.target_files import load_targets

        return SourceTree(folder, load_targets())

    @cached_property
    def _work(self) -> Path:
        """A private folder for guests and compiled objects while they are in use."""
        work = state_folder() / "kernels"
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
        return work

    def work_folder(self, prefix: str) -> TemporaryDirectory[str]:
        from tempfile import TemporaryDirectory

        return TemporaryDirectory(prefix=prefix, dir=self._work)

    def probe_build(self, folder: Path, cc: str, config: Path | None) -> ProbeBuild:
        """Return a build that configures the sources and compiles single objects outside the tree."""
        from ktrial.kernels.build.probe_build import ProbeBuild

        return ProbeBuild(folder, cc, config, self._work)

    @cached_property
    def sources(self) -> Sources:
        from ktrial.kernels.build.sources import Sources

        return Sources(cache_folder() / "kernels")

    @cached_property
    def patches(self) -> Patches:
        from ktrial.bench.tools.download import download
        from ktrial.kernels.build.patches import Patches

        return Patches(self._work, download)

    def signing(self, symbols: Mapping[str, str]) -> dict[str, str]:
        """Return the make variables that name the key for signing modules."""
        from ktrial.kernels.build.signing import signing_variables

        return signing_variables(symbols, self._work / "signing")

    @staticmethod
    def symbols(folder: Path, architecture: str) -> KnownSymbols:
        from ktrial.kernels.config.reasons import KnownSymbols

        source = {"x86_64": "x86"}.get(architecture, architecture)
        return KnownSymbols(folder, {"SRCARCH": source, "ARCH": architecture, "HEADER_ARCH": source})

    def configuring(self, folder: Path, variables: Mapping[str, str]) -> Configuring:
        from ktrial.kernels.config.configure import Configuring

        return Configuring(folder, variables, self.images, self._work)

    @cached_property
    def built(self) -> BuiltKernels:
        from ktrial.kernels.build.built_kernels import BuiltKernels

        return BuiltKernels(self._work / "built")

    @cached_property
    def images(self) -> Images:
        from ktrial.kernels.images.images import Images

        return Images()

    @cached_property
    def lab(self) -> Lab:
        from ktrial.guests.lab import Lab

        return Lab(self.images, self.guests_for, self._work, self._added_knobs)

    def _added_knobs(self) -> dict[str, bytes]:
        """Return files that allow the agent in a guest to write the user's own knobs."""
        from ktrial.tuning.catalog.model import own_files
        from ktrial.tuning.plans.added_knobs import ADDED

        files = own_files(self._catalog())
        return {f"{ADDED}/{number}.toml": content for number, content in enumerate(files.values())}

    @staticmethod
    def session_in(guest: AgentCarrier, role: Role) -> AgentSession:
        from ktrial.agent.session import AgentSession

        return AgentSession(Kernels.transport_to(guest, role))

    @staticmethod
    def transport_to(guest: AgentCarrier, role: Role) -> CarriedTransport:
        from functools import partial

        from ktrial.agent.carrier import CarriedTransport

        ends = guest.open(["serve", "--role", role], root=role == "root")
        return CarriedTransport(ends.to_agent, ends.from_agent, partial(guest.kill, ends.session), guest.why_gone)

    def guests_for(self, kernel: KernelFiles) -> Guests:
        """Return guests that can run this kernel, with the agent as their first process."""
        from ktrial.agent.foreign_agent import agent_for
        from ktrial.guests.boot import Guests
        from ktrial.guests.qemu import Emulator
        from ktrial.kernels.images.architectures import machine_for
        from ktrial.kernels.images.kernel_image import architecture

        target = architecture(kernel.image, kernel.image_path)
        emulator = Emulator(work=self._work, machine=machine_for(target, kernel.image_path))
        return Guests(emulator, agent_for(target), self._work)
