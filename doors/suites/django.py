"""Django's own tests of its tasks over its door.

    python doors/suites/django.py

It fetches the sources of the Django that is installed, 6 or later, puts backends on a real node in
the place of Django's two (one keeps tasks to be looked at, one runs each at once), and prints a
score. A failure whose reason is known stands below; any other one ends it with 1.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

from snowmelt.cli.local import LocalCluster

BUILD = Path("build/suites/django")
SETTINGS = """
SECRET_KEY = "only for tests"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
INSTALLED_APPS = ["snowmelt_doors.django"]
"""
STAND_INS = """
import os
import uuid
from snowmelt_doors.django.backend import SnowmeltTaskBackend
from snowmelt_doors.django.running import TaskRunner


class _Fresh(SnowmeltTaskBackend):
    # Its queues are new each time.
    def __init__(self, alias, params):
        super().__init__(alias, params)
        self.options = {"where": os.environ["SNOWMELT_URL"], "namespace": uuid.uuid4().hex[:12]}


class DummyBackend(_Fresh):
    def __init__(self, alias, params):
        super().__init__(alias, params)
        self._ids = []

    def enqueue(self, task, args, kwargs):
        result = super().enqueue(task, args, kwargs)
        self._ids.append(result.id)
        return result

    @property
    def results(self):
        return [self.get_result(one) for one in self._ids]

    def clear(self):
        self._ids.clear()


class ImmediateBackend(_Fresh):
    def enqueue(self, task, args, kwargs):
        result = super().enqueue(task, args, kwargs)
        item = self.connected.queue(task.queue_name).get(timeout=10)
        try:
            TaskRunner(self)(item)
        finally:
            item.ack()
        return self.get_result(result.id)
"""
RUN = """
import json
import sys
import unittest
import django

django.setup()
from django.test.runner import DiscoverRunner


class Result(unittest.TextTestResult):
    bad = {}

    def _told(self, test, error):
        self.bad[test.id().removeprefix("tasks.")] = f"{error[0].__name__}: {error[1]}"

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._told(test, error)

    def addError(self, test, error):
        super().addError(test, error)
        self._told(test, error)

    def addSubTest(self, test, part, error):
        super().addSubTest(test, part, error)
        if error is not None:
            self._told(test, error)


class Runner(DiscoverRunner):
    def get_resultclass(self):
        return Result

    def suite_result(self, suite, result, **options):
        with open("report.json", "w") as report:
            json.dump({"ran": result.testsRun, "bad": Result.bad}, report)
        return super().suite_result(suite, result, **options)


Runner(verbosity=0).run_tests(["tasks"])
from snowmelt_doors.django.places import _CONNECTED

for one in _CONNECTED.values():
    one.place.close()
"""
_IN_MEMORY = "it changes, or clears, a result in the memory of Django's backend for tests"
_OPTIONS = "it looks for a backend without options; one of Snowmelt's says where its tasks are"
_CAN = "it looks that Django's backend that runs tasks at once can't do this, which Snowmelt's can"
REASONS = {
    "test_clear": _IN_MEMORY,
    "test_refresh_result": _IN_MEMORY,
    "test_refresh_result_async": _IN_MEMORY,
    "test_using_correct_backend": _OPTIONS,
    "test_cannot_get_result": _CAN,
    "test_cannot_pass_run_after": _CAN,
    "test_cannot_refresh_result": _CAN,
}
"""Why a test fails, by its name."""


def fetched() -> Path:
    """The tests of the version that is installed, with our backends."""
    BUILD.mkdir(parents=True, exist_ok=True)
    wanted = f"django-{version('django')}"
    if not (BUILD / wanted).is_dir():
        get = ["download", "--no-deps", "--no-binary", ":all:", "-d", str(BUILD)]
        name = wanted.replace("-", "==", 1)
        subprocess.run([sys.executable, "-m", "pip", *get, name], check=True)
        with tarfile.open(BUILD / f"{wanted}.tar.gz") as packed:
            packed.extractall(BUILD, filter="data")
    run = BUILD / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(BUILD / wanted / "tests" / "tasks", run / "tasks")
    for one in (run / "tasks").glob("*.py"):
        text = one.read_text(encoding="utf-8")
        for kind in ("Dummy", "Immediate"):
            place = f"django.tasks.backends.{kind.lower()}"
            text = text.replace(f"{place}.{kind}Backend", f"stand_ins.{kind}Backend")
            text = text.replace(f"from {place} import", "from stand_ins import")
        one.write_text(text, encoding="utf-8")
    for name, text in (("suite_settings", SETTINGS), ("stand_ins", STAND_INS), ("run", RUN)):
        (run / f"{name}.py").write_text(text, encoding="utf-8")
    return run.resolve()


def main() -> int:
    installed = version("django")
    if int(installed.split(".", maxsplit=1)[0]) < 6:
        print(f"django {installed}: its tests of tasks come with Django 6, on Python 3.12 or later")
        return 0
    run = fetched()
    with tempfile.TemporaryDirectory() as folder, LocalCluster(1, Path(folder), 0.5) as cluster:
        cluster.start()
        settings = {"SNOWMELT_URL": cluster.url, "DJANGO_SETTINGS_MODULE": "suite_settings"}
        paths = os.pathsep.join([str(run), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, **settings, "PYTHONPATH": paths}
        subprocess.run([sys.executable, "run.py"], cwd=run, env=env, check=False)
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    ran, bad = report["ran"], report["bad"]
    good = ran - len(bad)
    print(f"\ndjango {installed}: {good} of {ran} passed, {100 * good / max(1, ran):.1f} %")
    unknown = not ran
    for name, what in bad.items():
        reason = REASONS.get(name.rsplit(".", maxsplit=1)[-1])
        print(f"  {name}\n      {reason or 'NOT KNOWN: ' + what}")
        unknown |= reason is None
    return int(unknown)


if __name__ == "__main__":
    sys.exit(main())
