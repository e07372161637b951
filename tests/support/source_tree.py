# SPDX-License-Identifier: Apache-2.0
"""A source tree with the make targets of a kernel that a build needs. Its image is built in an instant."""

from __future__ import annotations

from pathlib import Path

MAKEFILE = """\
# What a kernel's top Makefile offers, as far as a build out of the tree needs it.
HEAD := \\# Automatically generated file; DO NOT EDIT.
CC := $(if $(LLVM),clang,gcc)
BOOT := $(O)/arch/x86/boot

outputmakefile:
	@if [ -e .config ]; then \\
		echo >&2 "***"; \\
		echo >&2 "*** The source tree is not clean, please run 'make mrproper'"; \\
		echo >&2 "*** in $(CURDIR)"; \\
		echo >&2 "***"; \\
		false; \\
	fi
	@mkdir -p $(BOOT)

tinyconfig defconfig: outputmakefile
	@echo CONFIG_$@=y > $(O)/.config

olddefconfig: outputmakefile
	@grep '^CONFIG_.*config=' $(O)/.config > $(O)/.config.old
	@{ echo '#'; echo '$(HEAD)'; echo '# Linux/x86 6.12.0 Kernel Configuration'; echo '#'; \\
		echo "CONFIG_CC_VERSION_TEXT=\\"$$($(CC) --version | head -n 1)\\""; cat $(O)/.config.old; } > $(O)/.config

bzImage: outputmakefile
	@cp filling $(BOOT)/setup.bin
	$(CC) -c -o $(BOOT)/main.o $(CURDIR)/main.c
	@cat $(BOOT)/setup.bin $(BOOT)/main.o > $(BOOT)/bzImage
	@echo 'savedcmd_arch/x86/boot/bzImage := cat' > $(BOOT)/.bzImage.cmd

vmlinux: outputmakefile
	@: ends well and makes nothing
"""


def make_source_tree(folder: Path, image_bytes: int = 1000) -> Path:
    """Write the tree into a new folder."""
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    (folder / "main.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
    (folder / "filling").write_bytes(b"x" * image_bytes)
    return folder
