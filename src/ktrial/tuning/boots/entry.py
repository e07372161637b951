# SPDX-License-Identifier: Apache-2.0
"""Make the entry of a trial boot: this kernel with other arguments, or another kernel."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from ktrial.kit.errors import BadInput, Refused, UnknownName
from ktrial.tuning.boots.command_line import BootWord, ChangedLine, WordChange, base_words, change_line
from ktrial.tuning.boots.grub_menu import GrubConfig, MenuEntry, grub_program, read_grub_config, without_device
from ktrial.tuning.boots.loader_entry import LoaderEntry, entry_id, read_loader_entry

BootLoader = Literal["grub", "systemd-boot", "kexec"]
#: The folder of entries that the running kernel starts itself (kexec).
KEXEC_FOLDER = "/etc/ktrial-kexec"
TRIAL, REHEARSAL = "ktrial-trial", "ktrial-rehearsal"
#: Names that distributions give to the kernel, and to the initramfs, of a release.
_KERNELS = ("vmlinuz-{}", "vmlinux-{}", "kernel-{}", "Image-{}", "linux-{}")
_INITRDS = ("initrd.img-{}", "initrd-{}.img", "initramfs-{}.img", "initrd-{}", "initramfs-{}")
#: Modules of GRUB that reach a disk, a file system or a packed kernel; others are for the screen.
_REACH = re.compile(
    r"part_[a-z0-9]+|(?:ext2|xfs|btrfs|fat|exfat|f2fs|jfs|reiserfs|zfs|ntfs|iso9660|lvm|diskfilter|raid[56]rec)"
    r"|mdraid[a-z0-9_]+|(?:gz|xz|lzop|zstd)io?"
)
_HOW_TO_ADD = "add an entry for this kernel with `kernel-install add` or `grub-mkconfig`"
#: Characters that the agent does not accept in a title.
_TITLE = re.compile(r"[^A-Za-z0-9 _.,:=+-]")
_TITLE_CHARACTERS = 60


class BootGrounds(msgspec.Struct, frozen=True, kw_only=True):
    """Everything from which ktrial makes an entry.

    `files` are the paths of kernels and initramfs images. `entries` maps the paths of entry files to their texts;
    `mount` is the mount point of the partition that holds these files. `selected` is the entry that booted, according
    to systemd-boot.
    """

    loader: BootLoader
    command_line: str
    release: str
    files: tuple[str, ...]
    grub_path: str | None = None
    grub_text: str = ""
    entries: Mapping[str, str] = {}
    selected: str | None = None
    mount: str = ""


class BootEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A boot entry, in the form that the agent reads.

    `kernel` and `initrds` are paths as the boot loader sees them; `file` is the kernel's path on the running system.
    """

    id: str
    title: str
    modules: tuple[str, ...]
    search: str | None
    kernel: str
    file: str
    initrds: tuple[str, ...]
    base: tuple[str, ...]
    words: tuple[BootWord, ...]
    watchdog_s: int | None = None


class BootPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A boot entry, the path of its file, and the form in which the agent writes the file.

    Only the head uses the other fields. `initrd_files` are the paths of microcode and initramfs on the running system.
    `release` is None for another kernel whose release is unknown.
    """

    loader: BootLoader
    form: Literal["grub-entries", "boot-entry"]
    path: str
    entry: BootEntry
    removed: tuple[str, ...] = ()
    release: str | None = None
    is_other_kernel: bool = False
    initrd_files: tuple[str, ...] = ()
    has_initramfs: bool = False
    running_has_initramfs: bool = False

    @property
    def line(self) -> ChangedLine:
        return ChangedLine(self.entry.base, self.entry.words, self.removed)


class _Loaded(msgspec.Struct, frozen=True):
    """How the boot loader loads a kernel; the last two fields are paths of the machine."""

    kernel: str
    initrds: tuple[str, ...]
    modules: tuple[str, ...]
    search: str | None
    file: str
    initrd_files: tuple[str, ...]
    release: str | None
    has_initramfs: bool


def plan_boot(
    grounds: BootGrounds,
    changes: Iterable[WordChange],
    *,
    kernel: str | None = None,
    watchdog_s: int | None = None,
    entry: str = TRIAL,
) -> BootPlan:
    """Return the plan to boot the running kernel, or the kernel at the path `kernel`, with `changes` to its arguments.

    Raise Refused if ktrial cannot make such an entry here, and BadInput for an unknown kernel or invalid changes.
    """
    base = base_words(grounds.command_line, grounds.loader)
    changes = tuple(changes)
    line = change_line(base, changes)
    config = read_grub_config(grounds.grub_text) if grounds.loader == "grub" else None
    running = _running(grounds, config)
    is_other = kernel is not None and kernel != running.file
    if not changes and not is_other and entry == TRIAL:
        raise BadInput(
            "nothing to try: this kernel is running already",
            hint="name another kernel, or a kernel argument such as nohz_full=2-9 or -quiet",
        )
    loaded = _other(grounds, config, running, kernel) if kernel is not None and is_other else running
    path = _place(grounds, entry)
    return BootPlan(
        loader=grounds.loader,
        form="grub-entries" if grounds.loader == "grub" else "boot-entry",
        path=path,
        entry=BootEntry(
            id=entry,
            title=_title(entry, changes, loaded if is_other else None),
            modules=loaded.modules,
            search=loaded.search,
            kernel=loaded.kernel,
            file=loaded.file,
            initrds=loaded.initrds,
            base=line.base,
            words=line.words,
            watchdog_s=watchdog_s,
        ),
        removed=line.removed,
        release=loaded.release if is_other else grounds.release,
        is_other_kernel=is_other,
        initrd_files=loaded.initrd_files,
        has_initramfs=loaded.has_initramfs,
        running_has_initramfs=running.has_initramfs,
    )


def plan_rehearsal(grounds: BootGrounds, *, watchdog_s: int | None = None) -> BootPlan:
    """Return the plan of a rehearsal, which boots the running kernel with its present arguments and panics at once."""
    return plan_boot(grounds, (), watchdog_s=watchdog_s, entry=REHEARSAL)


def find_kernel(argument: str, grounds: BootGrounds) -> str | None:
    """Return the path of the installed kernel that `argument` names by path or release; None for an unknown release.

    Raise UnknownName for a path that `grounds.files` lacks.
    """
    kernels = [path for path in grounds.files if _suffix(path) is not None]
    if argument.startswith("/"):
        if argument in grounds.files:
            return argument
        raise UnknownName("kernel", argument, kernels, hint="install this kernel (see `ktrial kernel package`)")
    found = [path for path in kernels if posixpath.basename(path) in {name.format(argument) for name in _KERNELS}]
    for path, entry in _read_entries(grounds, {}):
        if entry.version == argument and entry.kernel is not None:
            found.append(_on_machine(entry.kernel, grounds, posixpath.dirname(path)))
    return found[0] if found else None


def entry_json(plan: BootPlan) -> dict[str, object]:
    """Return the entry in the form that the agent reads, without fields that are None."""
    content = msgspec.json.decode(msgspec.json.encode(plan.entry))
    return {name: value for name, value in content.items() if value is not None}


def _place(grounds: BootGrounds, entry: str) -> str:
    if grounds.loader == "grub":
        return posixpath.join(posixpath.dirname(grounds.grub_path or ""), "custom.cfg")
    if grounds.loader == "kexec":
        return f"{KEXEC_FOLDER}/{entry}.conf"
    return f"{grounds.mount}/loader/entries/{entry}.conf"


def _title(entry: str, changes: Iterable[WordChange], other: _Loaded | None) -> str:
    if entry == REHEARSAL:
        return "ktrial: rehearsal of the way back"
    parts = [posixpath.basename(other.file)] if other is not None else []
    text = " ".join([*parts, *(change.text for change in changes)]) or entry.removeprefix("ktrial-")
    return "ktrial: " + _TITLE.sub("_", text)[:_TITLE_CHARACTERS]


def _cannot(why: str, hint: str | None = None) -> Refused:
    return Refused(f"cannot prepare a boot: {why}", hint=hint)


def _running(grounds: BootGrounds, config: GrubConfig | None) -> _Loaded:
    """Return how the running kernel was loaded, or how the loader would load it by default."""
    if config is not None:
        return _running_grub(grounds, config)
    if grounds.loader == "systemd-boot":
        return _running_entry(grounds)
    file = find_kernel(grounds.release, grounds)
    if file is None:
        raise _cannot(f"/boot has no file of the running kernel, {grounds.release}", "install this kernel again")
    return _loaded_by_kexec(file, grounds)


def _loaded_by_kexec(file: str, grounds: BootGrounds) -> _Loaded:
    """Return a kernel and its initramfs, found by name; the microcode is loaded already."""
    release = _suffix(file)
    images = [] if release is None else [f"{posixpath.dirname(file)}/{name.format(release)}" for name in _INITRDS]
    initrds = tuple(path for path in images if path in grounds.files)[:1]
    return _Loaded(
        kernel=file,
        initrds=initrds,
        modules=(),
        search=None,
        file=file,
        initrd_files=initrds,
        release=release,
        has_initramfs=bool(initrds),
    )


def _running_grub(grounds: BootGrounds, config: GrubConfig) -> _Loaded:
    """Return how GRUB loaded the running kernel."""
    image = next((word for word in grounds.command_line.split() if word.startswith("BOOT_IMAGE=")), None)
    if image is None:
        raise _cannot(
            "the kernel command line does not name the kernel's file (BOOT_IMAGE=), so GRUB did not load the kernel",
            "boot this system from GRUB's menu (Xen is not supported)",
        )
    kernel = without_device(image.partition("=")[2])
    found = _find_menu_entry(config.entries, kernel, grounds.command_line)
    if found is None and config.has_entry_files:
        found = _of_entry_file(grounds, config, kernel)
    if found is None:
        program = grub_program("mkconfig", grounds.grub_path or "")
        raise _cannot(
            f"no entry of {grounds.grub_path} loads the running kernel ({kernel})",
            f"run `{program} -o {grounds.grub_path}`, then boot an entry of GRUB's menu",
        )
    return _loaded_by_grub(found, grounds, config)


def _loaded_by_grub(entry: MenuEntry, grounds: BootGrounds, config: GrubConfig) -> _Loaded:
    unfit = entry.unfit or ("unlocks an encrypted disk (cryptomount)" if config.unlocks_disk else None)
    if unfit is not None:
        raise _cannot(
            f"GRUB's entry {entry.title!r} {unfit}; ktrial's own entry cannot do that",
            "boot the kernel by hand from GRUB's menu (the e key edits an entry)",
        )
    return _Loaded(
        kernel=entry.kernel,
        initrds=entry.initrds,
        modules=tuple(module for module in entry.modules if _REACH.fullmatch(module)),
        search=entry.search,
        file=_in_boot(entry.kernel, grounds),
        initrd_files=tuple(_in_boot(path, grounds) for path in entry.initrds),
        release=_suffix(entry.kernel),
        has_initramfs=bool(entry.initrds),
    )


def _find_menu_entry(entries: Iterable[MenuEntry], kernel: str, command_line: str) -> MenuEntry | None:
    """Return the entry of the kernel whose arguments are most similar to those of this boot; None without one."""
    live = set(command_line.split())
    roots = {word for word in live if word.startswith("root=")}
    best: tuple[tuple[int, int], MenuEntry] | None = None
    for entry in entries:
        words = {word for word in entry.words if "$" not in word}
        own = {word for word in words if word.startswith("root=")}
        if entry.kernel != kernel or (own and roots and not own & roots):
            continue
        rank = len(words - live), len(live - words)
        if best is None or rank < best[0]:
            best = rank, entry
    return best[1] if best is not None else None


def _of_entry_file(grounds: BootGrounds, config: GrubConfig, kernel: str) -> MenuEntry | None:
    """Return the entry file of GRUB's blscfg that loads a kernel, as an entry of its menu; None without one."""
    found = [
        MenuEntry(
            title=entry.title,
            kernel=entry.kernel,
            words=entry.words,
            initrds=entry.initrds,
            modules=config.modules,
            search=config.search,
            unfit=entry.unfit,
        )
        for _, entry in _read_entries(grounds, config.variables)
        if entry.kernel is not None
    ]
    return _find_menu_entry(found, kernel, grounds.command_line)


def _read_entries(grounds: BootGrounds, variables: Mapping[str, str]) -> list[tuple[str, LoaderEntry]]:
    return [
        (path, read_loader_entry(text, variables))
        for path, text in grounds.entries.items()
        if not entry_id(path).startswith("ktrial-")
    ]


def _in_boot(path: str, grounds: BootGrounds) -> str:
    """Return the machine's path of a file that GRUB loads; GRUB may see `/boot` as `/`, or below a subvolume."""
    name = posixpath.basename(path)
    if (found := f"/boot/{name}") in grounds.files:
        return found
    raise _cannot(f"GRUB loads {path}, but {found} does not exist", "mount /boot, or install the kernel again")


def _running_entry(grounds: BootGrounds) -> _Loaded:
    """Return how systemd-boot loaded the running kernel."""
    entries = _read_entries(grounds, {})
    if grounds.selected is not None:
        wanted = entry_id(grounds.selected)
        found = [(path, entry) for path, entry in entries if entry_id(path) == wanted]
    else:
        live = set(grounds.command_line.split())
        found = [
            (path, entry) for path, entry in entries if entry.version == grounds.release and set(entry.words) <= live
        ]
    if len(found) != 1:
        which = grounds.selected or f"version {grounds.release}"
        more = "no entry file" if not found else f"{len(found)} entry files"
        raise _cannot(
            f"systemd-boot has {more} for {which} in {grounds.mount}/loader/entries, expected one",
            "remove the spare entries that `bootctl list` shows"
            if found
            else "boot an entry that has a file (type #1 in `bootctl list`)",
        )
    return _loaded_by_entry(*found[0], grounds)


def _loaded_by_entry(path: str, entry: LoaderEntry, grounds: BootGrounds) -> _Loaded:
    if entry.unfit is not None or entry.kernel is None:
        unfit = f"{entry.unfit}; ktrial's own entry cannot do that" if entry.unfit else "names no kernel"
        raise _cannot(
            f"the entry {posixpath.basename(path)} {unfit}",
            hint="boot the kernel by hand from the boot loader's menu",
        )
    folder = posixpath.dirname(path)
    return _Loaded(
        kernel=entry.kernel,
        initrds=entry.initrds,
        modules=(),
        search=None,
        file=_on_machine(entry.kernel, grounds, folder),
        initrd_files=tuple(_on_machine(one, grounds, folder) for one in entry.initrds),
        release=entry.version or _suffix(entry.kernel),
        has_initramfs=bool(entry.initrds),
    )


def _on_machine(path: str, grounds: BootGrounds, folder: str) -> str:
    """Return the machine's path of a file on the partition that holds the entry file."""
    return (folder.removesuffix("/loader/entries") if folder.endswith("/loader/entries") else grounds.mount) + path


def _other(grounds: BootGrounds, config: GrubConfig | None, running: _Loaded, file: str) -> _Loaded:
    """Return how to load another kernel: like its own entry, or like the running kernel with other file names."""
    if file not in grounds.files:
        raise UnknownName("kernel", file, grounds.files, hint="install this kernel (see `ktrial kernel package`)")
    if grounds.loader == "kexec":
        return _loaded_by_kexec(file, grounds)
    if config is None:
        return _other_by_entry(grounds, running, file)
    if posixpath.dirname(file) != "/boot":
        raise _cannot(
            f"GRUB's entries here load kernels from /boot, but {file} is elsewhere", "install this kernel in /boot"
        )
    kernel = posixpath.join(posixpath.dirname(running.kernel), posixpath.basename(file))
    found = _find_menu_entry(config.entries, kernel, grounds.command_line)
    if found is None and config.has_entry_files:
        found = _of_entry_file(grounds, config, kernel)
    if found is not None and found.search == running.search:
        return _loaded_by_grub(found, grounds, config)
    return _renamed(grounds, running, kernel, file)


def _other_by_entry(grounds: BootGrounds, running: _Loaded, file: str) -> _Loaded:
    if not file.startswith(f"{grounds.mount}/"):
        raise _cannot(
            f"systemd-boot reads only files of its own partition ({grounds.mount}), but {file} is elsewhere",
            f"run `kernel-install add RELEASE {file}` to copy the kernel there",
        )
    kernel = file.removeprefix(grounds.mount)
    for path, entry in _read_entries(grounds, {}):
        if entry.kernel == kernel:
            return _loaded_by_entry(path, entry, grounds)
    return _renamed(grounds, running, kernel, file)


def _renamed(grounds: BootGrounds, running: _Loaded, kernel: str, file: str) -> _Loaded:
    """Return how to load the other kernel like the running one: same microcode, its own kernel and initramfs."""
    old, new = _suffix(running.file), _suffix(file)
    loader_folder, folder = posixpath.dirname(kernel), posixpath.dirname(file)
    if old is None and running.initrds:
        raise _cannot(
            f"no entry loads {file}, so ktrial cannot tell which initramfs belongs to this kernel", _HOW_TO_ADD
        )
    initrds, files = [], []
    for path, on_machine in zip(running.initrds, running.initrd_files, strict=True):
        if old is None or old not in posixpath.basename(path):
            initrds.append(path)
            files.append(on_machine)
    own = [] if new is None else [f"{folder}/{name.format(new)}" for name in _INITRDS]
    image = next((path for path in own if path in grounds.files), None)
    if image is not None:
        initrds.append(posixpath.join(loader_folder, posixpath.basename(image)))
        files.append(image)
    return _Loaded(
        kernel=kernel,
        initrds=tuple(initrds),
        modules=running.modules,
        search=running.search,
        file=file,
        initrd_files=tuple(files),
        release=new,
        has_initramfs=image is not None,
    )


def _suffix(path: str) -> str | None:
    """Return the release, or a name such as `linux-lts`, after a prefix such as `vmlinuz-`; None without a prefix."""
    name = posixpath.basename(path)
    for form in _KERNELS:
        prefix = form.removesuffix("{}")
        if name.startswith(prefix) and len(name) > len(prefix):
            return name.removeprefix(prefix)
    return None
