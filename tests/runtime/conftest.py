"""Tests that are coroutines run on the loop that nodes run on, and each of them ends.

What two processes of one machine say goes the near way; so the tests of the network itself are run
over TCP as well.
"""

import asyncio
import inspect

import pytest

from snowmelt.runtime import near
from snowmelt.runtime.loops import new_loop


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    given = {name: pyfuncitem.funcargs[name] for name in wanted}
    with asyncio.Runner(loop_factory=new_loop()) as runner:
        runner.run(asyncio.wait_for(pyfuncitem.obj(**given), 200))
    return True


BOTH_WAYS = {"test_joining", "test_gone", "test_peer_engine", "test_peer_nodes", "test_processes"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in BOTH_WAYS:
        metafunc.parametrize("_way", ["near", "tcp"], indirect=True)


@pytest.fixture(autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if getattr(request, "param", "near") == "tcp":
        monkeypatch.setattr(near, "POSSIBLE", False)
        monkeypatch.setenv("SNOWMELT_NEAR", "no")  # of the processes that the test starts
