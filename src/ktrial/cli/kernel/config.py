# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel config`: make a configuration from a base and requested symbols, and read each one back."""

from __future__ import annotations

from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_bytes, write_answer
from ktrial.cli.shared.kernel_config import Wishes, prepared, wish_options


@click.command(short_help="Make a configuration; say why a symbol cannot be set.")
@wish_options
@click.pass_obj
def command(app: App, /, as_json: bool, **options: Any) -> int:
    """Write FOLDER/.config for the kernel in TREE, with the tree's own merge_config.sh and olddefconfig.

    \b
    ktrial kernel config linux.tar.xz --config tinyconfig --fragment guest -o small
    ktrial kernel config linux --config running --set HZ_1000=y -o build
    ktrial kernel config linux --patch bore.patch --fragment arashi-t3b -o build

    TREE is a folder, a git tree, a tar archive, or Debian's linux-source package; ktrial never changes it. BASE is
    one of these words: running, distro, localmodconfig, defconfig, tinyconfig, allnoconfig. It may also be a
    configuration file, or the image or package of a kernel. ktrial reads back every requested symbol. If a symbol is
    not as requested, ktrial names the missing dependency, and without --anyway writes nothing.
    """
    from ktrial.compare.files import write_file
    from ktrial.kernels.config.text import config_json, config_text

    wishes = Wishes(**options)
    found = prepared(app, wishes)
    folder = str(wishes.output)
    wishes.output.mkdir(parents=True, exist_ok=True)
    write_file(wishes.output / ".config", found.text)
    document = config_json(found.configured, folder)
    write_file(wishes.output / "ktrial-config.json", json_bytes(document))
    write_answer(as_json, lambda: document, lambda width: config_text(found.configured, folder, width=width))
    return 0
