"""Who runs tests, what none of them looks through, and that Ctrl-C reaches them."""

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

import forks
import warm
from snowmelt.cli.local import LocalNode

settings.load_profile("ci")
"""The same examples each time, however slow the machine is."""

LocalNode.popen = warm.Popen

MAKING = pytest.StashKey["subprocess.Popen[bytes]"]()
"""What writes down Spark's classes, while tests are collected."""
MAKING_SECONDS = 120


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--forks", help="processes for tests that compute, and for tests that wait: 1,5"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    option = session.config.option
    if not option.forks or option.collectonly or session.testsfailed:
        return None
    if MAKING in session.config.stash:
        try:
            session.config.stash[MAKING].wait(MAKING_SECONDS)
        except subprocess.TimeoutExpired:  # tests do without
            session.config.stash[MAKING].kill()
    forks.run(session, *forks.counts(option.forks))
    return True


def pytest_sessionstart(session: pytest.Session) -> None:
    """In the background SIGINT may be ignored, also by what tests start; some of them send it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if session.config.option.forks and not session.config.option.collectonly:
        _make_classes(session.config)


def _make_classes(config: pytest.Config) -> None:
    from snowmelt_world.standalone import CLASSES  # noqa: PLC0415  few tests need Spark

    if not CLASSES.exists():
        config.stash[MAKING] = subprocess.Popen(
            [sys.executable, "-m", "spark.classes"],
            cwd=Path(__file__).parent,
            env=os.environ | {"PYTHONPATH": warm.PRELOADED},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


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
