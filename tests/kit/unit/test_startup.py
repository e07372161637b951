# SPDX-License-Identifier: Apache-2.0
"""What loads sooner is the same as what loads whole, and does not stand in the way of what loads after it."""

from __future__ import annotations

import subprocess
import sys

#: In an order of its own, in a process that has loaded nothing yet.
AFTER = """
from ktrial.kit.startup import load_special
special = load_special()
assert load_special() is special
print(special.ndtr(1.5), special.ndtri(0.975), special.stdtr(7, -2.0), special.stdtrit(7, 0.975))
print(special.fdtrc(2, 9, 3.0), special.chdtrc(4, 5.0))
import numpy.testing
numpy.testing.assert_allclose(numpy.fft.rfft([1.0, 2.0]), [3.0, -1.0])
assert numpy.random.default_rng(1).normal() and numpy.ma.masked is not None
from scipy import optimize, stats
print(stats.studentized_range.sf(3.5, 3, 12), stats.t.ppf(0.9, 5), optimize.brentq(lambda x: x * x - 2, 0, 2))
from scipy.special import logsumexp, ndtr
print(logsumexp([1.0, 2.0]), ndtr is special.ndtr)
"""
OWN = "special = load_special()\nassert load_special() is special\n"
WHOLE = AFTER.replace("from ktrial.kit.startup import load_special", "from scipy import special").replace(OWN, "")


def printed(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_functions_are_those_of_scipy_and_the_rest_of_it_loads_after_them() -> None:
    assert printed(AFTER) == printed(WHOLE)


def test_what_is_for_other_arrays_is_not_loaded() -> None:
    program = "import sys\nfrom ktrial.kit.startup import load_special\nload_special()\nprint(*sys.modules)"
    loaded = printed(program).split()
    assert "scipy.special._ufuncs" in loaded
    assert not {
        "scipy.special",
        "scipy._lib._array_api",
        "numpy.testing",
        "numpy.f2py",
        "numpy.random",
        "unittest",
    } & set(loaded)


def test_of_a_scipy_that_has_its_functions_elsewhere_all_is_loaded() -> None:
    elsewhere = "from ktrial.kit import startup\nstartup._FUNCTIONS = 'scipy.special._elsewhere'\n"
    assert printed(elsewhere + "print(startup.load_special().logsumexp([0.0]))") == "0.0\n"


def test_modules_that_a_store_in_a_file_does_not_use_load_when_something_uses_them() -> None:
    program = """
import sys
from ktrial.kit.startup import defer_modules
defer_modules()
import sqlalchemy
from sqlalchemy.dialects import sqlite
with sqlalchemy.create_engine("sqlite://").connect() as connection:
    print(connection.execute(sqlalchemy.text("SELECT 1")).scalar())
print("asyncio.events" in sys.modules, "importlib.metadata._meta" in sys.modules)
async def one(): return 1
import importlib.metadata
from asyncio import iscoroutine, run
waiting = one()
print(iscoroutine(waiting), run(waiting), importlib.metadata.version("sqlalchemy") == sqlalchemy.__version__)
import asyncio.subprocess
defer_modules()
print(asyncio.subprocess.PIPE, asyncio is sys.modules["asyncio"], asyncio.run is run)
"""
    assert printed(program) == "1\nFalse False\nTrue 1 True\n-1 True True\n"
