"""Real workers with a pool of processes: what they lose when they, or the node, are killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from snowmelt.cli.local import LocalNode

pytest_plugins = ("door_nodes",)

HERE = Path(__file__).parent


@contextmanager
def worker(node: LocalNode, notes: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **{name: value for name, value in os.environ.items() if "SNOWMELT" not in name},
        "SNOWMELT_URL": node.url,
        "STORM_NOTES": str(notes),
    }
    command = ["worker", "--concurrency", "2", "--loglevel", "INFO", *options]
    with (notes.parent / "worker.log").open("ab") as log:
        started = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "storm_tasks", *command],
            cwd=HERE,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield started
    finally:
        with_group(started, signal.SIGKILL)


def with_group(process: subprocess.Popen[bytes], number: int) -> None:
    """The worker, and the processes of its pool."""
    if process.poll() is None:
        os.killpg(process.pid, number)
        process.wait(30)


@pytest.fixture
def storm(own_node: LocalNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The tasks, over a node of this test's own."""
    monkeypatch.setenv("SNOWMELT_URL", own_node.url)
    monkeypatch.syspath_prepend(str(HERE))
    sys.modules.pop("storm_tasks", None)
    import storm_tasks  # noqa: PLC0415

    (tmp_path / "notes").mkdir()
    yield storm_tasks
    storm_tasks.app.backend.close()
    storm_tasks.app.close()
    sys.modules.pop("storm_tasks", None)


def ran(notes: Path) -> dict[int, int]:
    """How often each task ran."""
    return {int(one.name): one.read_text().count("ran") for one in notes.iterdir()}


def until(true: Any, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.1)
    return False


def test_nothing_is_lost_when_workers_and_the_node_are_killed(
    storm: Any, own_node: LocalNode, tmp_path: Path
) -> None:
    notes, count = tmp_path / "notes", 60
    results = [storm.note.delay(number, 0.05) for number in range(count)]
    with worker(own_node, notes) as first:
        assert until(lambda: len(ran(notes)) > 5), (tmp_path / "worker.log").read_text()
        with_group(first, signal.SIGKILL)
    at_kill = len(ran(notes))
    with worker(own_node, notes) as second:
        assert until(lambda: len(ran(notes)) > at_kill + 5)
        own_node.kill()
        own_node.start()
        found = [one.get(timeout=60) for one in results]
        assert found == list(range(count))
        assert set(ran(notes)) == set(range(count))
        twice = [number for number, times in ran(notes).items() if times > 1]
        assert len(twice) <= 12  # those that were in hand at a kill
        assert second.poll() is None  # it went on by itself
        with storm.app.connection() as connection:
            left = storm.app.amqp.queues["celery"](connection.default_channel)
            assert until(lambda: left.queue_declare(passive=True).message_count == 0)
        os.kill(second.pid, signal.SIGTERM)
        assert second.wait(60) == 0


def test_a_task_longer_than_its_lease_runs_once(
    storm: Any, own_node: LocalNode, tmp_path: Path
) -> None:
    """celery#2481, with an eta and a task that are both longer than the lease of a second."""
    notes = tmp_path / "notes"
    with worker(own_node, notes), worker(own_node, notes, "-n", "other@%h"):
        late = storm.note.apply_async((7, 2.5), countdown=2.5)
        assert late.get(timeout=60) == 7
        time.sleep(1.5)
        assert ran(notes) == {7: 1}
