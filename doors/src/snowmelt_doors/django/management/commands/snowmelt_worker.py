"""`python manage.py snowmelt_worker`: runs tasks until it is stopped."""

import atexit
import logging
import threading
from argparse import ArgumentParser
from typing import Any

from django import conf
from django.core.management.base import BaseCommand, CommandError
from django.utils import autoreload

import snowmelt
from snowmelt_doors.django.backend import SnowmeltTaskBackend
from snowmelt_doors.django.framework import task_backends
from snowmelt_doors.django.running import TaskRunner


class Command(BaseCommand):
    """Runs tasks until it is stopped."""

    help = "Runs the tasks of a backend of Snowmelt's until SIGTERM or Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What can be said."""
        said = parser.add_argument
        said("--backend", default="default", help="Which of TASKS; default: default.")
        said("--queue", action="append", help="Which queue; again for more. Default: all.")
        said(
            "--threads",
            type=int,
            default=1,
            help="How many tasks run at once, shared out among queues; 1 each.",
        )
        said("--limit", type=float, help="How many seconds a task may take; default: any.")
        said("--grace", type=float, default=30.0, help="Seconds that a stop waits for tasks; 30.")
        said("--idle", type=float, help="Ends when nothing came for so many seconds.")
        said("--reload", action="store_true", help="Begins anew when code changes; so with DEBUG.")
        said("--no-reload", action="store_true", help="Does not, even with DEBUG.")

    def handle(self, *_: Any, **options: Any) -> None:
        """Runs a worker, in a thread beside Django's reloader if that is wished."""
        reloads = (options["reload"] or conf.settings.DEBUG) and not options["no_reload"]
        if options["verbosity"]:
            logging.getLogger("snowmelt").setLevel(logging.INFO)
        if reloads and options["idle"] is None:
            autoreload.run_with_reloader(self._beside, **options)
        else:
            self._worker(options, signals=True).run(options["idle"])

    def _worker(self, options: dict[str, Any], *, signals: bool) -> snowmelt.Worker:
        backend = task_backends[options["backend"]]
        if not isinstance(backend, SnowmeltTaskBackend):
            raise CommandError(f"TASKS[{options['backend']!r}] is no backend of Snowmelt's.")
        names = options["queue"] or sorted(backend.queues)
        if not names:
            raise CommandError("Say which queues: --queue NAME.")
        if options["threads"] < 1:
            raise CommandError(f"--threads is {options['threads']}; allowed: 1 or more.")
        try:
            queues = [backend.connected.queue(one) for one in names]
        except snowmelt.SnowmeltError as error:
            raise CommandError(str(error)) from error
        runner = TaskRunner(backend, options["limit"])
        self.stdout.write(f"worker {runner.worker_id} runs tasks of {', '.join(names)}")
        self.stdout.flush()
        try:
            return snowmelt.Worker(
                queues,
                runner,
                threads=max(options["threads"], len(queues)),
                limit=options["limit"],
                grace=options["grace"],
                signals=signals,
            )
        except snowmelt.BadOption as error:
            raise CommandError(str(error)) from error

    def _beside(self, **options: Any) -> None:
        """In a thread of the reloader's: a change of code, or the end of the process, stops it."""
        worker, ended = self._worker(options, signals=False), threading.Event()

        def stop(**_: Any) -> None:
            worker.stop()
            ended.wait(options["grace"] + 1)

        autoreload.file_changed.connect(stop)
        atexit.register(stop)
        try:
            worker.run()
        finally:
            ended.set()
            autoreload.file_changed.disconnect(stop)
