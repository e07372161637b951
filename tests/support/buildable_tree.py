# SPDX-License-Identifier: Apache-2.0
"""A tree whose make takes a second instead of a kernel's ten minutes, with the same words, files and folders."""

from __future__ import annotations

from pathlib import Path

from tests.support.kernel_trees import SHAPES, write
from tests.support.kernels import image, package

MAKEFILE = r"""
SRC := $(CURDIR)

tinyconfig:
	@printf 'CONFIG_64BIT=y\nCONFIG_HZ_250=y\n' > $(O)/.config

olddefconfig:
	@sed -i '/CONFIG_STUBBORN=/d' $(O)/.config

bzImage:
	@echo '  CC      init/main.o'
	@mkdir -p $(O)/init $(O)/arch/x86/boot
	@echo 'savedcmd_init/main.o := $(CC) -O2 -march=x86-64 $(KCFLAGS) -c -o init/main.o init/main.c' \
		> $(O)/init/.main.o.cmd
	@touch $(O)/init/main.o
	@echo '  CC      kernel/fork.o'
	@env | grep -E '^(KBUILD_BUILD|SOURCE_DATE_EPOCH|CCACHE_PREFIX)' | sort > $(O)/told
	@if grep -q CONFIG_BROKEN=y $(O)/.config; then cat $(SRC)/failure >&2; exit 1; fi
	@if grep -q CONFIG_SLOW=y $(O)/.config; then sleep 60; fi
	@cp $(SRC)/image $(O)/arch/x86/boot/bzImage

bindeb-pkg:
	@cp $(SRC)/package $(O)/../linux-image-6.12.7-test_1_amd64.deb
"""
KCONFIG = "\n".join(
    [f'config {name}\n\tbool "{name}"\n' for name in ("64BIT", "BROKEN", "SLOW", "STUBBORN", "HZ_250", "HZ_1000")]
    + ['source "arch/x86/Kconfig.cpu"\n']
)
MERGE = r"""#!/bin/sh
# merge_config.sh -m -O OUT BASE FRAGMENT: the last line about a symbol counts.
awk -F '[= ]' '/^CONFIG_/ { k = $1 } /^# CONFIG_/ { k = $2 } { v[k] = $0 } END { for (i in v) print v[i] }' \
    "$4" "$5" | LC_ALL=C sort > "$3/.config"
"""
MINIMUM = "#!/bin/sh\ncase $1 in gcc) echo 5.1.0 ;; binutils) echo 2.25.0 ;; *) exit 1 ;; esac\n"
FAILURE = "tools/objtool/elf.h:10:10: fatal error: gelf.h: No such file or directory\n"


def write_buildable(folder: Path) -> Path:
    """Write the tree into a folder."""
    write(SHAPES["6.14.0"], folder)
    made = image()
    for name, content in {
        "Kconfig": KCONFIG,
        "scripts/kconfig/merge_config.sh": MERGE,
        "scripts/min-tool-version.sh": MINIMUM,
        "scripts/Makefile.package": "bindeb-pkg:\n",
        "failure": FAILURE,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (folder / "Makefile").write_text((folder / "Makefile").read_text() + MAKEFILE)
    (folder / "image").write_bytes(made)
    (folder / "package").write_bytes(package({"boot/vmlinuz-6.12.7-test": made}))
    return folder
