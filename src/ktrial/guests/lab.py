# SPDX-License-Identifier: Apache-2.0
"""Guests by their places: which kernel, on which machine, with which modules and disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

import msgspec

from ktrial.bench.guest_tools import GuestPlace, GuestRun, Job
from ktrial.guests import disk
from ktrial.guests.boot import BootLimits, Guests
from ktrial.guests.modules import modules_folder, take_modules
from ktrial.guests.programs import GuestFiles, bring
from ktrial.guests.running import RunningGuest
from ktrial.kernels.identity import KernelFound
from ktrial.kernels.images.architectures import host_architecture
from ktrial.kernels.images.images import Images, KernelFiles, read_kernel

#: What an agent starts for swap in memory, and where it looks for that.
_SWAP_PROGRAMS, _FOLDERS = ("mkswap", "swapon", "swapoff"), "/usr/sbin:/usr/bin:/sbin:/bin"
#: Swap in memory and what it may compress with, as far as a kernel has them as modules.
_SWAP_MODULES = ("lzo", "lzo_rle", "lz4", "zstd", "zram")


class Lab:
    """Implements `trial.guests.prepare.GuestLab`; every kernel and its modules are read once."""

    def __init__(
        self,
        images: Images,
        guests_for: Callable[[KernelFiles], Guests],
        work: Path | None = None,
        common: Callable[[], Mapping[str, bytes]] = dict,
    ) -> None:
        """`guests_for` finds the guests that can run a kernel, `common` the files that every guest gets."""
        self._images = images
        self._common = common
        self._guests_for = guests_for
        self._work = work
        self._kernels: dict[str, tuple[KernelFiles, Guests]] = {}
        self._tools: dict[tuple[str, tuple[str, ...]], GuestFiles] = {}
        self._modules: dict[tuple[str, tuple[str, ...], bool, bool], dict[str, bytes]] = {}

    @property
    def workers(self) -> int:
        """How many exact guests may run at once: one on each CPU that this process may use."""
        return max(1, len(os.sched_getaffinity(0)))

    def why_no_kvm(self, kernel: str) -> str | None:
        """Return why this kernel cannot be run with KVM, found by running code with it; None if it can."""
        return self._look_up(kernel)[1].why_no_kvm()

    def identify(self, kernel: str) -> KernelFound:
        return read_kernel(self._images, kernel)

    def boot(self, place: GuestPlace, job: Job, files: Mapping[str, bytes]) -> GuestRun:
        """Return one boot, to its end or a limit; `files` are put into the guest by their paths there."""
        kernel, guests = self._look_up(place.kernel)
        brought, job = self._prepared(place, job, files)
        return guests.boot(kernel, job, brought, place.shape, BootLimits(place.limit_s))

    def talk(self, place: GuestPlace) -> RunningGuest:
        kernel, guests = self._look_up(place.kernel)
        brought, job = self._prepared(place, Job(), {})
        return guests.talk(kernel, job, brought, place.shape, place.limit_s)

    def runs_programs(self, kernel: str) -> bool:
        """Return whether programs of this machine run in guests with this kernel."""
        return self._look_up(kernel)[1].architecture == host_architecture()

    def swap_programs(self, kernel: str) -> tuple[str, ...]:
        """Return where the programs lie here that set swap up, as far as they run in guests with this kernel."""
        places = (shutil.which(name, path=_FOLDERS) for name in _SWAP_PROGRAMS if self.runs_programs(kernel))
        return tuple(place for place in places if place is not None)

    def tools_in(self, place: GuestPlace) -> Mapping[str, str]:
        """Return where its programs of this machine lie in a guest, by name."""
        _, guests = self._look_up(place.kernel)
        brought = self._tools_for(guests.architecture, place.tools).tools
        return {Path(name).name: where for name, where in brought.items()}

    def can_have_disk(self, kernel: str) -> bool:
        """Return whether this kernel lies beside modules, and a file system can be made here."""
        return modules_folder(Path(self._look_up(kernel)[0].image_path)) is not None and disk.program() is not None

    def stop(self) -> None:
        for _, guests in self._kernels.values():
            guests.stop()

    def prepare(self, place: GuestPlace) -> None:
        """Read everything that boots of this place need, before several threads ask for it."""
        self._prepared(place, Job(), {})

    def _look_up(self, kernel: str) -> tuple[KernelFiles, Guests]:
        if kernel not in self._kernels:
            files = self._images.find(kernel)
            self._kernels[kernel] = files, self._guests_for(files)
        return self._kernels[kernel]

    def _prepared(self, place: GuestPlace, job: Job, files: Mapping[str, bytes]) -> tuple[GuestFiles, Job]:
        kernel, guests = self._look_up(place.kernel)
        key = (place.kernel, place.modules, place.disk, _sets_swap_up(place))
        if key not in self._modules:
            self._modules[key] = self._modules_of(place, kernel)
        modules = self._modules[key]
        image = {disk.PLACE: self._disk} if place.disk else {}
        tools = self._tools_for(guests.architecture, place.tools)
        brought = GuestFiles(
            {**self._common(), **tools.files, **files, **modules, **image}, tools.links, tools.tools, tools.architecture
        )
        job = msgspec.structs.replace(job, modules=tuple(modules), disk=disk.TYPE if place.disk else None)
        return brought, job

    def _tools_for(self, architecture: str, names: tuple[str, ...]) -> GuestFiles:
        """Return programs of this machine with their libraries."""
        if (architecture, names) not in self._tools:
            self._tools[architecture, names] = bring(names, architecture)
        return self._tools[architecture, names]

    @staticmethod
    def _modules_of(place: GuestPlace, kernel: KernelFiles) -> dict[str, bytes]:
        needed = (*(disk.MODULES if place.disk else ()), *place.modules)
        wanted = (*(disk.MODULES_OF_SOME if place.disk else ()), *(_SWAP_MODULES if _sets_swap_up(place) else ()))
        return take_modules(needed, kernel.image_path, wanted=wanted)

    @cached_property
    def _disk(self) -> bytes:
        return disk.image(self._work)


def _sets_swap_up(place: GuestPlace) -> bool:
    return any(Path(tool).name in _SWAP_PROGRAMS for tool in place.tools)
