# SPDX-License-Identifier: Apache-2.0
"""A service that people use all day: clients send requests through a proxy that delays each answer.

Usage: live_program.py LOG PORT WATCHED VALUE FACTOR CLIENTS-PORT RATE DAY_S SEED
It listens on 127.0.0.1:CLIENTS-PORT and forwards to 127.0.0.1:PORT, a Redis server. Each answer is delayed by some
milliseconds, by FACTOR times as many while the file WATCHED holds VALUE. Requests come at random, RATE a second on
average and by turns more and fewer, as over a day of DAY_S seconds. Each writes a line `latency_ms NUMBER` to LOG.
"""

from __future__ import annotations

import asyncio
import math
import random
import sys
import time
from contextlib import suppress
from pathlib import Path

DELAY_S = 0.004
#: The delay wanders: its logarithm returns to zero by this share per second, and moves by this much at random.
_PULL, _MOVE = 0.05, 0.01
_REQUEST = b"*2\r\n$3\r\nGET\r\n$4\r\npage\r\n"
#: The change over a day, as a share of the rate.
_TIDE = 0.6


class Service:
    """The proxy, and the clients."""

    def __init__(self, log: Path, watched: Path, value: str, factor: float, seed: int) -> None:
        self._log = log.open("a", buffering=1)
        self._watched, self._value, self._factor = watched, value, factor
        self._rng = random.Random(seed)
        self._now_factor = 1.0
        self._wander = 0.0

    async def look(self) -> None:
        """Read the watched file, and let the delay wander."""
        while True:
            held = " ".join(self._watched.read_text().split())
            self._now_factor = self._factor if held == self._value else 1.0
            self._wander += -_PULL * 0.1 * self._wander + self._rng.gauss(0, _MOVE * math.sqrt(0.1))
            await asyncio.sleep(0.1)

    def delay_s(self) -> float:
        return DELAY_S * self._now_factor * math.exp(self._wander + self._rng.gauss(0, 0.1))

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        """Send each request over a new connection, so that settings of new connections have an effect."""
        with suppress(ConnectionError):
            while asked := await reader.read(1 << 16):
                there, here = await asyncio.open_connection("127.0.0.1", port)
                here.write(asked)
                answer = await _answer(there)
                here.close()
                await asyncio.sleep(self.delay_s())
                writer.write(answer)
        writer.close()

    async def clients(self, port: int, rate: float, day_s: float, most: int = 16) -> None:
        free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        for _ in range(most):
            free.put_nowait(await asyncio.open_connection("127.0.0.1", port))
        due_s = began_s = time.monotonic()
        waiting: set[asyncio.Task[None]] = set()
        while True:
            now_rate = rate * (1 + _TIDE * math.sin(2 * math.pi * (due_s - began_s) / day_s))
            due_s += self._rng.expovariate(now_rate)
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            task = asyncio.create_task(self._ask(free, due_s))
            waiting.add(task)
            task.add_done_callback(waiting.discard)

    async def _ask(self, free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]], due_s: float) -> None:
        connection = await free.get()
        connection[1].write(_REQUEST)
        await _answer(connection[0])
        free.put_nowait(connection)
        self._log.write(f"latency_ms {1000 * (time.monotonic() - due_s):.3f}\n")


async def _answer(reader: asyncio.StreamReader) -> bytes:
    """Read a whole answer: a line with the length, and the content."""
    line = await reader.readline()
    return line + await reader.readexactly(int(line[1:]) + 2)


async def main(words: list[str]) -> None:
    log, port, watched, value, factor, own_port, rate, day_s, seed = words
    service = Service(Path(log), Path(watched), value, float(factor), int(seed))
    server = await asyncio.start_server(lambda r, w: service.forward(r, w, int(port)), "127.0.0.1", int(own_port))
    async with server:
        await asyncio.gather(service.look(), service.clients(int(own_port), float(rate), float(day_s)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
