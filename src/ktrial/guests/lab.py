# SPDX-License-Identifier: Apache-2.0
"""Boots the guests of places. A place is a kernel and a machine, with modules and a disk."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from ktrial.bench.guest_tools import GuestPlace, GuestRun, Job
from ktrial.guests.boot import BootLimits, Guests
from ktrial.guests.modules import modules_folder, take_modules
from ktrial.guests.programs import GuestFiles, bring
from ktrial.guests.running import RunningGuest
from ktrial.kernels.identity import KernelFound
from ktrial.kernels.images.architectures import host_architecture
from ktrial.kernels.images.images import Images, KernelFiles, read_kernel
from ktrial.kit.errors import KtrialError

#: Programs that an agent runs to set up swap in memory, and where it looks for them.
_SWAP_PROGRAMS, _FOLDERS = ("mkswap", "swapon", "swapoff"), "/usr/sbin:/usr/bin:/sbin:/bin"
#: Modules for swap in memory and its compression; a kernel may have them built in instead.
_SWAP_MODULES = ("lzo", "lzo_rle", "lz4", "zstd", "zram")
#: The type of the disk's file system, and the path of its image for the guest's first process.
_DISK_TYPE, _DISK_PLACE = "ext4", "/ktrial/disk"
#: Modules for kernels that lack a driver; `crc32c_generic` is only needed before 6.14.
_DISK_MODULES, _OLD_DISK_MODULES = ("brd", "ext4"), ("crc32c_generic",)
_DISK_BYTES = 8 << 20
_DISK_UUID, _DISK_TIME = "6b747269-616c-4000-8000-000000000000", "1704067200"
_MKFS, _MKFS_LIMIT_S = "mkfs.ext4", 30.0


class Lab:
    """Boots guests; implements `trial.guests.prepare.GuestLab`. A lab reads each kernel and its modules once."""

    def __init__(
        self,
        images: Images,
        guests_for: Callable[[KernelFiles], Guests],
        work: Path | None = None,
        common: Callable[[], Mapping[str, bytes]] = dict,
    ) -> None:
        """Create a lab. `guests_for` finds guests for a kernel; `common` holds the files that every guest gets."""
        self._images = images
        self._common = common
        self._guests_for = guests_for
        self._work = work
        self._kernels: dict[str, tuple[KernelFiles, Guests]] = {}
        self._tools: dict[tuple[str, tuple[str, ...]], GuestFiles] = {}
        self._modules: dict[tuple[str, tuple[str, ...], bool, bool], dict[str, bytes]] = {}

    @property
    def workers(self) -> int:
        """The number of exact guests that run at the same time: one for each CPU that this process may use."""
        return max(1, len(os.sched_getaffinity(0)))

    def why_no_kvm(self, kernel: str) -> str | None:
        """Run code with KVM. Return why this kernel cannot run with KVM; None if it can."""
        return self._look_up(kernel)[1].why_no_kvm()

    def find(self, kernel: str) -> None:
        self._look_up(kernel)

    def identify(self, kernel: str) -> KernelFound:
        return read_kernel(self._images, kernel)

    def boot(self, place: GuestPlace, job: Job, files: Mapping[str, bytes]) -> GuestRun:
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
        """Return the paths of the programs that set up swap; none if they cannot run in guests with this kernel."""
        places = (shutil.which(name, path=_FOLDERS) for name in _SWAP_PROGRAMS if self.runs_programs(kernel))
        return tuple(place for place in places if place is not None)

    def tools_in(self, place: GuestPlace) -> Mapping[str, str]:
        """Map the names of the programs that ktrial copies from this machine to their paths in the guest."""
        _, guests = self._look_up(place.kernel)
        brought = self._tools_for(guests.architecture, place.tools).tools
        return {Path(name).name: where for name, where in brought.items()}

    def can_have_disk(self, kernel: str) -> bool:
        """Return whether this kernel's modules are beside it and this machine can create a file system."""
        return (
            modules_folder(Path(self._look_up(kernel)[0].image_path)) is not None
            and shutil.which(_MKFS, path=_mkfs_path()) is not None
        )

    def stop(self) -> None:
        for _, guests in self._kernels.values():
            guests.stop()

    def prepare(self, place: GuestPlace) -> None:
        """Read and cache all files for boots at this place, so that several threads can boot at the same time."""
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
            needed = (*(_DISK_MODULES if place.disk else ()), *place.modules)
            wanted = (*(_OLD_DISK_MODULES if place.disk else ()), *(_SWAP_MODULES if _sets_swap_up(place) else ()))
            self._modules[key] = take_modules(needed, kernel.image_path, wanted=wanted)
        modules = self._modules[key]
        image = {_DISK_PLACE: self._disk} if place.disk else {}
        tools = self._tools_for(guests.architecture, place.tools)
        brought = GuestFiles(
            {**self._common(), **tools.files, **files, **modules, **image}, tools.links, tools.tools, tools.architecture
        )
        job = msgspec.structs.replace(job, modules=tuple(modules), disk=_DISK_TYPE if place.disk else None)
        return brought, job

    def _tools_for(self, architecture: str, names: tuple[str, ...]) -> GuestFiles:
        if (architecture, names) not in self._tools:
            self._tools[architecture, names] = bring(names, architecture)
        return self._tools[architecture, names]

    @cached_property
    def _disk(self) -> bytes:
        return _disk_image(self._work)


def _sets_swap_up(place: GuestPlace) -> bool:
    return any(Path(tool).name in _SWAP_PROGRAMS for tool in place.tools)


def _mkfs_path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _disk_image(work: Path | None) -> bytes:
    """Return an empty file system. Its bytes are always the same, so that exact guests stay exact.

    It has room for file names; files that consist of holes may have any size.
    """
    mkfs = shutil.which(_MKFS, path=_mkfs_path())
    if mkfs is None:
        raise KtrialError(f"cannot create a guest's disk: {_MKFS} is not installed", hint="install e2fsprogs")
    with TemporaryDirectory(prefix="disk-", dir=work) as folder:
        file = Path(folder) / "disk"
        with file.open("wb") as created:
            created.truncate(_DISK_BYTES)
        argv = [mkfs, "-q", "-F", "-O", "^has_journal", "-m", "0", "-U", _DISK_UUID, "-E", f"hash_seed={_DISK_UUID}"]
        times = {"E2FSPROGS_FAKE_TIME": _DISK_TIME, "SOURCE_DATE_EPOCH": _DISK_TIME}
        environment = {"PATH": _mkfs_path(), **times, "LC_ALL": "C"}
        try:
            subprocess.run(
                [*argv, str(file)], env=environment, capture_output=True, text=True, timeout=_MKFS_LIMIT_S, check=True
            )
        except subprocess.CalledProcessError as error:
            raise KtrialError(
                f"cannot create a guest's disk: {mkfs} ended with status {error.returncode} ({error.stderr.strip()})",
                hint="reinstall e2fsprogs",
            ) from None
        except (OSError, subprocess.TimeoutExpired) as error:
            why = error.strerror if isinstance(error, OSError) else f"it did not end within {_MKFS_LIMIT_S:g} s"
            raise KtrialError(
                f"cannot create a guest's disk with {mkfs}: {why}",
                hint="run the command again, or reinstall e2fsprogs",
            ) from None
        return file.read_bytes()
