"""Tests that are coroutines run on the loop that nodes run on, and never longer than a minute."""

import asyncio
import inspect

import pytest

from snowmelt.runtime.server import new_loop


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    given = {name: pyfuncitem.funcargs[name] for name in wanted}
    with asyncio.Runner(loop_factory=new_loop()) as runner:
        runner.run(asyncio.wait_for(pyfuncitem.obj(**given), 60))
    return True
