# SPDX-License-Identifier: Apache-2.0
"""Obstacles to booting another kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktrial.tuning.boots.entry import BootPlan
from ktrial.tuning.boots.kernel_header import KernelHeader, read_kernel_header
from ktrial.tuning.boots.scene import YES_KERNEL, KernelScene, Obstacle


def kernel_obstacles(plan: BootPlan, kernel: KernelScene, running: str) -> Iterator[Obstacle]:
    """Yield what prevents a boot of another kernel; `running` is the release of the running kernel."""
    if not plan.is_other_kernel:
        return
    file = plan.entry.file
    if kernel.head is None:
        yield Obstacle(kind="unreadable", message=f"cannot read {file}", hint=f"make {file} readable for root")
        return
    header = read_kernel_header(kernel.head)
    if header is None:
        yield Obstacle(
            kind="not-a-kernel",
            message=f"{file} is not a kernel that a boot loader can load",
            hint="use a bzImage, Image or vmlinuz",
        )
        return
    yield from _of_image(file, header, kernel)
    yield from _of_release(plan, kernel.release, kernel, running)


def release_of(plan: BootPlan, head: bytes | None) -> str | None:
    """Return the release that the kernel or its file name states; None if neither does."""
    header = read_kernel_header(head or b"")
    return (header.release if header is not None else None) or plan.release


def _of_image(file: str, header: KernelHeader, kernel: KernelScene) -> Iterator[Obstacle]:
    if kernel.architecture is not None and header.architecture != kernel.architecture:
        yield Obstacle(
            kind="architecture",
            message=f"{file} is a kernel for {header.architecture}, but this machine runs {kernel.architecture}",
            hint=f"use a kernel for {kernel.architecture}",
        )
    if kernel.is_secure and not header.is_signed:
        yield Obstacle(
            kind="unsigned",
            message=f"Secure Boot is on, and {file} is not signed: the boot loader would stop with an error",
            hint="sign the kernel with a key that the firmware or shim knows, for example with sbsign",
        )
    if not kernel.is_packaged:
        yield Obstacle(
            kind="not-packaged",
            message=f"no package owns {file}, and a kernel has full control of this machine",
            hint=f"add {YES_KERNEL} if you trust whoever built this kernel",
            needs=YES_KERNEL,
        )


def _of_release(plan: BootPlan, release: str | None, kernel: KernelScene, running: str) -> Iterator[Obstacle]:
    file = plan.entry.file
    if plan.running_has_initramfs and not plan.has_initramfs:
        yield Obstacle(
            kind="no-initramfs",
            message=f"{file} has no initramfs, but the running kernel uses one",
            hint=f"create an initramfs with `update-initramfs -c -k {release}` or `dracut --kver {release}`"
            if release
            else "create an initramfs with `update-initramfs` or `dracut`",
        )
    if release is None:
        yield Obstacle(
            kind="no-modules",
            message=f"cannot find the modules of {file}: neither the file nor the file's name states a release",
            hint="name the file vmlinuz-RELEASE, like the kernel's folder /lib/modules/RELEASE",
        )
        return
    if not kernel.has_modules:
        yield Obstacle(
            kind="no-modules",
            message=f"{file} has no modules: /lib/modules/{release}/modules.dep is missing",
            hint="install the modules of this kernel with `make modules_install`, or as a package",
        )
        return
    if kernel.modules is not None:
        lacking = [name for name in kernel.drivers if name.replace("-", "_") not in kernel.modules]
        if lacking:
            yield Obstacle(
                kind="no-driver",
                message=f"{release} has no driver for the root file system here: {', '.join(lacking)}",
                hint=f"install or build the missing drivers for {release}",
            )
    if (unbuilt := unbuilt_modules(kernel.dkms, running, release)) and release != running:
        yield Obstacle(
            kind="dkms",
            message=f"DKMS has built {', '.join(unbuilt)} for {running}, but not for {release}",
            hint=f"run `dkms autoinstall -k {release}`",
        )


def unbuilt_modules(paths: Iterable[str], running: str, release: str) -> tuple[str, ...]:
    """Return the DKMS modules, such as nvidia, that are built for the running kernel but not for `release`.

    DKMS puts a built module at NAME/VERSION/RELEASE/ARCHITECTURE/module/FILE below /var/lib/dkms.
    """
    built: dict[str, set[str]] = {}
    for path in paths:
        parts = path.removeprefix("/var/lib/dkms/").split("/")
        if len(parts) == 6 and parts[4] == "module":
            built.setdefault(parts[0], set()).add(parts[2])
    return tuple(sorted(name for name, releases in built.items() if running in releases and release not in releases))
