"""Who runs tests, what none of them looks through, and that Ctrl-C reaches them."""

import gc
import signal

import pytest
from hypothesis import settings

import forks
import warm
from snowmelt.cli.local import LocalNode

settings.load_profile("ci")
"""The same examples each time, however slow the machine is."""

LocalNode.popen = warm.Popen


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--forks", help="processes for tests that compute, and for tests that wait: 1,5"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    option = session.config.option
    if not option.forks or option.collectonly or session.testsfailed:
        return None
    forks.run(session, *forks.counts(option.forks))
    return True


def pytest_sessionstart() -> None:
    """In the background SIGINT may be ignored, also by what tests start; some of them send it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collectstart() -> None:
    """What is collected stays: no collection of garbage looks through it, no fork copies it."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From now on there is garbage."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_setup() -> None:
    """Python drops what is thrown into a callback of the collector; hypothesis leaves one."""
    gc.callbacks[:] = [one for one in gc.callbacks if not _of_hypothesis(one)]


def _of_hypothesis(one: object) -> bool:
    return str(getattr(one, "__module__", "")).startswith("hypothesis.")
