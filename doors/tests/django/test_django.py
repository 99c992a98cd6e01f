"""Django's tasks over Snowmelt: the site of the example, its worker, and what is killed."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import django
import pytest
from django.db import connections, transaction
from django.db.migrations import RunSQL
from django.test import Client

import snowmelt
from door_senders import Sender
from snowmelt.cli.local import LocalCluster, LocalNode, free_port
from snowmelt_doors.django.backend import SnowmeltTaskBackend
from snowmelt_doors.django.framework import TaskResultDoesNotExist
from snowmelt_doors.django.places import _CONNECTED
from snowmelt_doors.django.running import TaskRunner
from snowmelt_doors.outbox import SQLITE_SCHEMA

pytestmark = pytest.mark.usefixtures("site")
SITE = Path(__file__).parents[3] / "examples" / "django_site"
TASKS = """
import os, signal, time
import django
if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task
from snowmelt_doors.django.places import connected

@task
def double(number):
    return 2 * number

@task(takes_context=True)
async def attempt(context):
    return context.attempt

@task
def fail():
    raise ValueError("no")

@task
def leave():
    raise SystemExit("enough")

@task
def strange():
    return object()

@task
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)

@task
def note(number, path):
    done = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(done, b"%d\\n" % number)
    os.close(done)

@task
def kill_once(path):
    if not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"

not_a_task = 3
"""
SETTINGS = """
import os
from site_settings import *

DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["DATABASE"],
    "OPTIONS": {"timeout": 30},
}}
LOGGING = {
    "version": 1, "disable_existing_loggers": False,
    "handlers": {"error": {"class": "logging.StreamHandler"}},
    "loggers": {"snowmelt": {"handlers": ["error"]}},
}
TASKS["boxed"] = {**TASKS["default"], "QUEUES": ["boxed"]}
TASKS["boxed"]["OPTIONS"] = {**TASKS["default"]["OPTIONS"], "outbox": "default"}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNode]:
    """A node, and this process as one of a site."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "more_tasks.py").write_text(TASKS)
    (folder / "test_settings.py").write_text(SETTINGS)
    with (
        LocalCluster(1, folder / "node", 0.5) as cluster,
        pytest.MonkeyPatch.context() as patch,
    ):
        cluster.start()
        patch.setenv("SNOWMELT_URL", cluster.url)
        patch.setenv("DATABASE", str(folder / "database"))
        patch.setenv("DJANGO_SETTINGS_MODULE", "test_settings")
        for path in (folder, SITE):
            patch.syspath_prepend(str(path))
        django.setup()
        with snowmelt.connect(cluster.url) as made:
            for name in ("default", "bulk", "boxed"):
                made.priority(f"django.{name}", largest_first=True, lease=2).create()
        yield cluster.nodes[0]

        for one in _CONNECTED.values():
            one.place.close()


@pytest.fixture
def tasks(site: LocalNode) -> Any:  # noqa: ARG001
    import more_tasks  # noqa: PLC0415  # it needs the settings

    return more_tasks


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Runs the command of the site; with `wait` until nothing came for a second."""
    begun: list[subprocess.Popen[bytes]] = []

    def work(
        *options: str, wait: bool = True, program: str = "snowmelt_worker"
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "manage.py", program, *options]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path[:2])}
        with (tmp_path / "log").open("ab") as log:
            one = subprocess.Popen(
                [*command, "--idle", "1"] if wait else command,
                cwd=SITE, env=env, stdout=log, stderr=log,
            )  # fmt: skip
        begun.append(one)
        if wait:
            one.wait(60)
        return one

    yield work
    for one in begun:
        if one.poll() is None:
            one.kill()
            one.wait()


def refreshed(result: Any, seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while not result.is_finished and time.monotonic() < end:
        time.sleep(0.05)
        result.refresh()
    return result


def test_the_site_of_the_example_posts_letters(work: Callable[..., Any]) -> None:
    client = Client()
    one = client.get("/ask/Anna").json()["id"]
    many = client.get("/many?name=Ben&name=Cleo").json()["id"]
    assert client.get(f"/look/{one}").json() == {"status": "READY", "said": None, "attempts": 0}
    assert work("--threads", "2").returncode == 0
    said = [client.get(f"/look/{name}").json() for name in (one, many)]
    assert said == [
        {"status": "SUCCESSFUL", "said": "posted to Anna", "attempts": 1},
        {"status": "SUCCESSFUL", "said": "2 posted, attempt 1", "attempts": 1},
    ]


def test_what_became_of_tasks_is_written_down(tasks: Any, work: Callable[..., Any]) -> None:

    before = datetime.now(UTC)
    done, failed, odd = tasks.double.enqueue(21), tasks.fail.enqueue(), tasks.strange.enqueue()
    left = tasks.leave.enqueue()
    tried = asyncio.run(tasks.attempt.aenqueue())
    late = tasks.double.using(run_after=before + timedelta(hours=1)).enqueue(1)
    soon = tasks.double.using(run_after=before + timedelta(seconds=1)).enqueue(2)
    over = tasks.wait_for.enqueue("nothing that comes")
    work("--threads", "4", "--limit", "1")
    for one in (done, failed, odd, left, tried, late, soon, over):
        one.refresh()
    assert (done.return_value, tried.return_value, soon.return_value) == (42, 1, 4)
    assert [one.status for one in (failed, odd, left, over)] == ["FAILED"] * 4
    assert left.errors[0].exception_class is SystemExit
    assert failed.errors[0].exception_class is ValueError
    assert 'raise ValueError("no")' in failed.errors[0].traceback
    assert odd.errors[0].exception_class is TypeError
    assert over.errors[0].exception_class is TimeoutError
    assert "longer than 1 seconds" in over.errors[0].traceback
    assert (late.status, late.started_at, late.attempts) == ("READY", None, 0)
    assert soon.started_at >= before + timedelta(seconds=1)
    assert before <= done.enqueued_at <= done.started_at <= done.finished_at
    assert len(done.worker_ids) == 1
    assert tasks.double.get_result(done.id).args == [21]
    with pytest.raises(TaskResultDoesNotExist):
        tasks.double.get_result("nothing")
    connection(done).queue("default").purge()


def connection(result: Any) -> Any:
    return result.task.get_backend().connected


def test_the_most_urgent_comes_first(tasks: Any, work: Callable[..., Any]) -> None:
    some = {
        priority: tasks.double.using(priority=priority).enqueue(priority)
        for priority in (0, -100, 100, 7, -1)
    }
    work()
    began = [(refreshed(one).started_at, priority) for priority, one in some.items()]
    assert [priority for _, priority in sorted(began)] == [100, 7, 0, -1, -100]


def test_a_task_that_is_not_there_has_failed(tasks: Any, work: Callable[..., Any]) -> None:
    result = tasks.double.enqueue(1)
    record = json.loads(connection(result).records.find(result.id))
    for number, path in enumerate(("more_tasks.gone", "more_tasks.not_a_task")):
        body = json.dumps(record | {"task": path, "id": f"gone-{number}"}).encode()
        connection(result).queue("default").put(body)
    work()
    kept = [json.loads(connection(result).records.find(f"gone-{number}")) for number in (0, 1)]
    assert [one["status"] for one in kept] == ["FAILED", "FAILED"]
    assert kept[0]["errors"][0][0] == "builtins.ImportError"
    assert "more_tasks.not_a_task is no task" in kept[1]["errors"][0][1]


def test_a_task_whose_worker_is_killed_runs_again(
    tasks: Any, work: Callable[..., Any], tmp_path: Path
) -> None:
    result = tasks.kill_once.enqueue(str(tmp_path / "killed"))
    assert work(wait=False).wait(30) == -signal.SIGKILL
    result.refresh()
    assert (result.status, result.attempts) == ("RUNNING", 1)
    one = work(wait=False)
    assert refreshed(result).return_value == "alive"
    assert result.attempts == 2
    one.terminate()
    assert one.wait(20) == 0


def test_sigterm_waits_for_what_is_in_hand(
    tasks: Any, work: Callable[..., Any], tmp_path: Path
) -> None:
    go_on = tmp_path / "go on"
    some = [tasks.wait_for.enqueue(str(go_on)) for _ in range(4)]
    one = work("--threads", "2", "--queue", "default", wait=False)
    for result in some[:2]:
        while not result.started_at:
            time.sleep(0.05)
            result.refresh()
    one.terminate()
    end = time.monotonic() + 60
    while "a worker stops" not in (log := (tmp_path / "log").read_text()):
        assert time.monotonic() < end, log
        time.sleep(0.01)
    go_on.touch()
    assert one.wait(20) == 0
    for result in some:
        result.refresh()
    assert sorted(result.status for result in some) == [
        "READY",
        "READY",
        "SUCCESSFUL",
        "SUCCESSFUL",
    ]
    work("--threads", "2", "--queue", "default")
    assert all(refreshed(result).attempts == 1 for result in some)


def test_a_change_of_code_begins_anew(tasks: Any, work: Callable[..., Any]) -> None:
    module = Path(tasks.__file__)
    one = work("--reload", wait=False)
    try:
        assert refreshed(tasks.double.enqueue(1)).return_value == 2
        end, value, pause = time.monotonic() + 90, 2, 1.2
        while value != 3 and time.monotonic() < end:  # the reloader has to have seen it before
            module.write_text(TASKS.replace("2 * number", "3 * number"))
            time.sleep(pause)
            pause *= 2  # it may take longer to begin anew
            value = refreshed(tasks.double.enqueue(1)).return_value
        assert refreshed(tasks.double.enqueue(2)).return_value == 6
    finally:
        module.write_text(TASKS)
        one.terminate()
    one.wait(20)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "does not say where its tasks are"),
        ({"where": "a", "wher": 1}, "has unknown OPTIONS: wher."),
        ({"where": "a", "retention": 1}, "retention is 1"),
        ({"where": "a", "outbox": "other"}, "outbox is 'other'"),
    ],
)
def test_bad_options_are_checked(options: dict[str, Any], named: str) -> None:

    (said,) = SnowmeltTaskBackend("odd", {"OPTIONS": options}).check()
    assert named in said.msg


def test_the_command_says_what_is_wrong(
    work: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for options in (["--threads", "0"], ["--grace", "-1"]):
        assert work(*options).returncode == 1
    monkeypatch.setenv("SNOWMELT_URL", f"snowmelt://127.0.0.1:{free_port()}")
    assert work().returncode == 1
    *_, said = (tmp_path / "log").read_text().splitlines()
    assert said.startswith("CommandError: no node could be reached in the time given")


def test_a_folder_is_a_site_of_one_process(tasks: Any, tmp_path: Path) -> None:

    backend = SnowmeltTaskBackend("default", {"OPTIONS": {"where": str(tmp_path / "queues")}})
    result = backend.enqueue(tasks.double, (4,), {})
    runner = TaskRunner(backend)
    snowmelt.Worker(backend.connected.queue("default"), runner).run(timeout=0.2)
    assert backend.get_result(result.id).return_value == 8


@pytest.fixture
def boxed(tasks: Any) -> Any:
    """A task whose backend has an outbox, and its tables, as a migration makes them."""
    with connections["default"].schema_editor() as editor:
        for table in ("outbox", "outbox_batches"):
            editor.execute(f"DROP TABLE IF EXISTS {table}")
        RunSQL(SQLITE_SCHEMA).database_forwards("letters", editor, None, None)
    return tasks.double.using(backend="boxed", queue_name="boxed")


def rows() -> int:
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM outbox")
        return int(cursor.fetchone()[0])


def test_a_task_of_a_transaction_runs_if_that_commits(boxed: Any, work: Callable[..., Any]) -> None:
    gone: list[Any] = []
    after = datetime.now(UTC) + timedelta(seconds=3)
    with transaction.atomic():
        done = [boxed.enqueue(1), boxed.using(run_after=after).enqueue(2)]
        with suppress(ZeroDivisionError), transaction.atomic():
            gone.append(boxed.enqueue(3))
            raise ZeroDivisionError
    with suppress(ZeroDivisionError), transaction.atomic():
        gone.append(boxed.enqueue(4))
        raise ZeroDivisionError
    done.append(boxed.enqueue(5))
    assert [refreshed(one, 0).status for one in done] == ["READY"] * 3
    assert rows() == 3
    assert work("--backend", "boxed", program="snowmelt_relay").returncode == 0
    assert rows() == 0
    work("--backend", "boxed", "--idle", "4")
    assert [refreshed(one).return_value for one in done] == [2, 4, 10]
    assert done[1].started_at >= after
    assert [refreshed(one, 0).attempts for one in (*done, *gone)] == [1, 1, 1, 0, 0]
    status = connection(done[0]).queue("boxed").stats()
    assert (status.ready, status.delayed, status.leased) == (0, 0, 0)


@pytest.mark.wide
def test_a_task_of_a_transaction_runs_once_though_relays_and_the_node_are_killed(
    site: LocalNode, boxed: Any, work: Callable[..., Any]
) -> None:
    relayed(site, boxed, work, 3)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_task_of_a_transaction_runs_once_in_a_long_storm(
    site: LocalNode, boxed: Any, work: Callable[..., Any]
) -> None:
    relayed(site, boxed, work, 30)


def relayed(site: LocalNode, boxed: Any, work: Callable[..., Any], rounds: int) -> None:
    """Each round rolls back a fifth of the tasks, and kills one of two relays, or the node."""
    chance, kept, gone = random.Random(rounds), list[Any](), list[Any]()
    queue = boxed.get_backend().connected.queue("boxed")
    before = queue.stats()
    both = [relay(work), relay(work)]
    for turn in range(rounds):
        for _ in range(40):
            fails = chance.random() < 0.2
            with suppress(ZeroDivisionError), transaction.atomic():
                (gone if fails else kept).append(boxed.enqueue(len(kept)))
                if fails:
                    raise ZeroDivisionError
        at = chance.randrange(2)
        both[at].kill()
        both[at].wait()
        if turn % 2 == 0:
            site.kill()
            site.start()
        both[at] = relay(work)
    end = time.monotonic() + 60
    while rows() and time.monotonic() < end:
        time.sleep(0.1)
    assert (rows(), queue.stats().ready) == (0, before.ready + len(kept))
    work("--backend", "boxed", "--threads", "4")
    assert [refreshed(one).return_value for one in kept] == [2 * at for at in range(len(kept))]
    assert {one.attempts for one in kept} == {1}
    assert {refreshed(one, 0).attempts for one in gone} == {0}


def relay(work: Callable[..., Any]) -> "subprocess.Popen[bytes]":
    return work("--backend", "boxed", wait=False, program="snowmelt_relay")


def test_nothing_is_lost_though_workers_and_the_node_are_killed(
    site: LocalNode, tasks: Any, work: Callable[..., Any], tmp_path: Path
) -> None:
    storm(site, tasks, work, tmp_path, 1)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_nothing_is_lost_in_a_long_storm(
    site: LocalNode, tasks: Any, work: Callable[..., Any], tmp_path: Path
) -> None:
    storm(site, tasks, work, tmp_path, 12)


SENDER = """
import os, django
django.setup()
import more_tasks

def send(number):
    more_tasks.note.enqueue(number, os.environ["DONE"])
"""


def storm(site: LocalNode, tasks: Any, work: Callable[..., Any], folder: Path, rounds: int) -> None:
    """Each round kills the worker, a program that sends, and each second one the node."""
    chance, asked, one = random.Random(rounds), list[Any](), work("--threads", "4", wait=False)
    done = folder / "done"
    sender = Sender(folder, SENDER, DONE=str(done))
    for turn in range(rounds):
        sender.start()
        for _ in range(40):
            after = datetime.now(UTC) + timedelta(seconds=chance.choice((0, 0, 0.5)))
            asked.append(tasks.double.using(run_after=after).enqueue(len(asked)))
        time.sleep(chance.uniform(0.5, 1.5))
        one.kill()
        one.wait()
        if turn % 2 == 0:
            site.kill()
            site.start()
        one = work("--threads", "4", wait=False)
        sender.kill()
    for number, result in enumerate(asked):
        assert refreshed(result, 60).return_value == 2 * number
        assert result.attempts <= 1 + 2 * rounds
    queue, end = connection(asked[0]).queue("default"), time.monotonic() + 60
    while (status := queue.stats()).ready + status.leased and time.monotonic() < end:
        time.sleep(0.1)
    one.terminate()
    assert one.wait(20) == 0
    sender.check(set(map(int, done.read_text().split())))
