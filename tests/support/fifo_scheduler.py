# SPDX-License-Identifier: Apache-2.0
"""The smallest sched_ext scheduler: a name without callbacks, so that the kernel's defaults serve one queue in order.

`fifo_scheduler.py find` looks its types up in the kernel's BTF, which takes long in an emulated guest, and prints their
numbers; `fifo_scheduler.py run NAME THE NUMBERS` keeps the scheduler in force as long as this process lives. It needs
root, but nothing built.
"""

import ctypes
import os
import signal
import struct
import sys
from pathlib import Path

BTF = "/sys/kernel/btf/vmlinux"
VALUE, OPS = "bpf_struct_ops_sched_ext_ops", "sched_ext_ops"
ENUMERATORS = ("BPF_MAP_TYPE_STRUCT_OPS", "BPF_STRUCT_OPS", "BPF_F_LINK")
_BPF_SYSCALL = 321  # x86_64
_MAP_CREATE, _MAP_UPDATE, _BTF_LOAD, _LINK_CREATE = 0, 2, 18, 28
_STRUCT, _ENUM = 4, 6
#: Bytes after the header of a type, by kind: for the type itself, and for each of its members.
_EXTRA = {1: 4, 3: 12, 14: 4, 17: 4}
_EACH = {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}


def find() -> list[int]:
    """Return numbers from the BTF for `run`.

    They are number and size of the value's type, the offsets of its data and of the scheduler's name, and three
    enumerators.
    """
    data = Path(BTF).read_bytes()
    _, _, _, header, type_off, type_len, str_off, _ = struct.unpack_from("<HBBIIIII", data)
    texts = data[header + str_off :]
    names = {texts.index(b"\0%s\0" % name.encode()) + 1: name for name in (VALUE, OPS, "data", "name", *ENUMERATORS)}
    found: dict[str, int] = {}
    at, end, number = header + type_off, header + type_off + type_len, 0
    while at < end:
        number += 1
        name_off, info, size = struct.unpack_from("<III", data, at)
        kind, members = info >> 24 & 0x1F, info & 0xFFFF
        at += 12 + _EXTRA.get(kind, 0)
        if kind == _STRUCT and names.get(name_off) in (VALUE, OPS):
            name = names[name_off]
            found |= {name: number, f"{name} size": size}
            for member in range(members):
                member_name, _, bits = struct.unpack_from("<III", data, at + 12 * member)
                if member_name in names:
                    found[f"{name}.{names[member_name]}"] = bits // 8
        elif kind == _ENUM:
            for member in range(members):
                member_name, value = struct.unpack_from("<II", data, at + 8 * member)
                if member_name in names:
                    found[names[member_name]] = value
        at += members * _EACH.get(kind, 0)
    wanted = (VALUE, f"{VALUE} size", f"{VALUE}.data", f"{OPS}.name", *ENUMERATORS)
    return [found[one] for one in wanted]


def bpf(command: int, attributes: bytes) -> int:
    """Call bpf() and return its result."""
    library = ctypes.CDLL(None, use_errno=True)
    done = library.syscall(_BPF_SYSCALL, command, attributes, len(attributes))
    if done < 0:
        raise OSError(ctypes.get_errno(), f"bpf command {command}: {os.strerror(ctypes.get_errno())}")
    return int(done)


def address(buffer: "ctypes.Array[ctypes.c_char]") -> int:
    return ctypes.addressof(buffer)


def load_types() -> int:
    """Load a BTF with one integer: a map of the kernel's structures requires a BTF with any content."""
    texts = b"\0int\0"
    types = struct.pack("<IIII", 1, 1 << 24, 4, 1 << 24 | 32)
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(texts))
    blob = ctypes.create_string_buffer(header + types + texts, len(header + types + texts))
    return bpf(_BTF_LOAD, struct.pack("<QQIII", address(blob), 0, len(blob), 0, 0))


def put_in_force(name: str, numbers: list[int]) -> int:
    """Return the link that keeps the scheduler in force as long as it is open."""
    value_type, value_size, data_at, name_at, map_type, attach_type, link_flag = numbers
    sizes = struct.pack("<IIIIIII", map_type, 4, value_size, 1, link_flag, 0, 0)
    its_map = bpf(_MAP_CREATE, sizes + struct.pack("<16sIIIIIQ", b"fifo", 0, load_types(), 0, 0, value_type, 0))
    key = ctypes.create_string_buffer(4)
    value = ctypes.create_string_buffer(value_size)
    ctypes.memmove(address(value) + data_at + name_at, name.encode(), len(name))
    bpf(_MAP_UPDATE, struct.pack("<IIQQQ", its_map, 0, address(key), address(value), 0))
    return bpf(_LINK_CREATE, struct.pack("<IIII", its_map, 0, attach_type, 0))


def main(words: list[str]) -> int:
    if words[0] == "find":
        sys.stdout.write(" ".join(map(str, find())) + "\n")
        return 0
    put_in_force(words[1], [int(word) for word in words[2:]])
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
