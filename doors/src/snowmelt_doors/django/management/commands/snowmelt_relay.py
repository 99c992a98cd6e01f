"""`python manage.py snowmelt_relay`: brings tasks out of the outbox into their queues."""

import time
from argparse import ArgumentParser
from contextlib import closing
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from snowmelt_doors.django.backend import MARKS, SnowmeltTaskBackend
from snowmelt_doors.django.framework import task_backends
from snowmelt_doors.outbox import OutboxRelay


class Command(BaseCommand):
    """Relays until it is ended; any number may run at once."""

    help = "Brings tasks that are in a database's outbox into their queues, until it is ended."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What can be said."""
        parser.add_argument(
            "--backend", default="default", help="Which of TASKS; default: default."
        )
        parser.add_argument(
            "--idle", type=float, help="Ends when nothing came for so many seconds."
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Has a connection of its own to the database, which is not in autocommit."""
        backend = task_backends[options["backend"]]
        alias = isinstance(backend, SnowmeltTaskBackend) and backend.options.get("outbox")
        if not alias:
            raise CommandError(f"TASKS[{options['backend']!r}] has no outbox of Snowmelt's.")
        if not backend.queues:
            raise CommandError(f"TASKS[{options['backend']!r}] names no QUEUES.")
        connected, own = backend.connected, connections[alias].copy()
        with closing(own):
            own.connect()
            own.set_autocommit(False)
            for name in backend.queues:
                connected.queue(name)  # so that it is one of priorities
            names = sorted(map(connected.name, backend.queues))
            relay = OutboxRelay(own.connection, connected.place, names, mark=MARKS[own.vendor])
            last = time.monotonic()
            while options["idle"] is None or time.monotonic() < last + options["idle"]:
                if relay.turn():
                    last = time.monotonic()
                else:
                    time.sleep(0.1)
