# SPDX-License-Identifier: Apache-2.0
"""Telemetry samples as Parquet, which data tools read; the bytes are written and read in memory.

`time_ns` is monotonic. The metadata `ktrial` names the unit of each other column. Columns are integers if the kernel
counts in that unit, otherwise doubles, which represent whole numbers up to 2^50 exactly.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import duckdb
import msgspec

from ktrial.kit.errors import KtrialError
from ktrial.machine.sensors import Samples, Sensor

SCHEMA = "ktrial.telemetry/1"
_TIME = "time_ns"
#: Fields that are columns of the file, not metadata.
_IN_COLUMNS = ("times_ns", "columns")


def to_parquet(samples: Samples) -> bytes:
    names = list(samples.columns)
    chosen = [f"unnest($1::BIGINT[]) AS {_quoted(_TIME)}"]
    values: list[list[Any]] = [list(samples.times_ns)]
    for place, name in enumerate(names, start=2):
        whole = samples.units[name].per_unit == 1
        values.append(list(samples.columns[name] if whole else samples.values(name)))
        chosen.append(f"unnest(${place}::{'BIGINT' if whole else 'DOUBLE'}[]) AS {_quoted(name)}")
    about = {key: value for key, value in msgspec.to_builtins(samples).items() if key not in _IN_COLUMNS}
    text = msgspec.json.encode({"schema": SCHEMA, **about}).decode().replace("'", "''")
    with _in_memory(b"") as (descriptor, path):
        _writer().execute(
            f"COPY (SELECT {', '.join(chosen)}) TO '{path}'"
            f" (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false, KV_METADATA {{ktrial: '{text}'}})",
            values,
        )
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


@cache
def _writer() -> duckdb.DuckDBPyConnection:
    """Return a cached connection, because opening one takes longer than writing.

    The connection uses one thread, which disturbs a run least.
    """
    return duckdb.connect(":memory:", config={"threads": 1})


def from_parquet(data: bytes) -> Samples:
    """Return the samples in a file of `to_parquet`. Raise KtrialError for other files."""
    with _in_memory(data) as (_, path), duckdb.connect(":memory:") as connection:
        try:
            about = _about(connection, path)
            units = msgspec.convert(about.get("units"), dict[str, Sensor])
            found = connection.execute(f"SELECT * FROM read_parquet('{path}')")
            rows = found.fetchall()
            if len(found.description or ()) != 1 + len(units):
                raise ValueError("its columns do not match its units")
            # By place, because DuckDB ignores case in names.
            times_ns = [row[0] for row in rows]
            whole = {
                name: [None if row[place] is None else round(row[place] * sensor.per_unit) for row in rows]
                for place, (name, sensor) in enumerate(units.items(), start=1)
            }
            return msgspec.convert({**about, "times_ns": times_ns, "columns": whole}, Samples)
        except (duckdb.Error, msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
            first = str(error).partition("\n")[0]
            raise KtrialError(f"not telemetry of ktrial: {first}", hint="name a file that ktrial wrote") from None


def _about(connection: duckdb.DuckDBPyConnection, path: str) -> dict[str, Any]:
    rows = connection.execute(f"SELECT key, value FROM parquet_kv_metadata('{path}')").fetchall()
    described = {bytes(key): value for key, value in rows}.get(b"ktrial")
    if described is None:
        raise ValueError("it does not name its sensors")
    about: dict[str, Any] = msgspec.json.decode(described, type=dict)
    if about.get("schema") != SCHEMA:
        raise ValueError(f"its schema is {about.get('schema')!r}, not {SCHEMA!r}")
    return about


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _in_memory(data: bytes) -> Iterator[tuple[int, str]]:
    """Open an anonymous file in memory; yield its descriptor and a path to it for this process."""
    descriptor = os.memfd_create("ktrial-telemetry", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        yield descriptor, f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
