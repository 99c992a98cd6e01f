"""What a program wrote in a transaction of its own database goes into queues, exactly once.

Rules:

1. A row of the outbox is written in the program's transaction: it is there when that commits, and
   not otherwise. Whoever writes it needs nothing of this module.
2. A relay seals rows first: in one transaction, under the lock of its queue's count, the first rows
   of a queue are given the next number. From then on these rows and this number belong together.
3. Then it stages these rows, publishes them under this number, and deletes them. A number that was
   published is not published again. So a relay may be killed anywhere: the next one does the same
   rows under the same number, and as many as there are may do it at once.
4. The numbers are those of a producer that the database names, by chance, for each queue: another
   database has numbers of its own. With each goes a digest of the rows. A database that was put
   back from a backup counts numbers again that were used for other rows: `AlreadyPublished` says
   so, and nothing is put.
5. A row that is `due` later (in seconds since 1970) is put with a delay.
6. The rows of a queue keep the order of their ids, as far as they were there when they were sealed.
   So what was written after another transaction's commit comes after what that one wrote.
"""

import logging
import time
from collections.abc import Iterable
from contextlib import closing
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NoReturn
from uuid import uuid4

import snowmelt
from snowmelt.client.queue.options import as_key
from snowmelt.core.errors import BadOption, CallerError, Full, NotStaged
from snowmelt_doors.places import AWAY, Place

_LOG: Final = logging.getLogger("snowmelt.outbox")
_HOLD: Final = 3600.0
"""So long it is kept what a relay staged that was killed before it published."""
_PATIENCE: Final = 2.0
"""So long a full queue may hold up others."""
SCHEMA: Final = """
CREATE TABLE outbox (
    id       BIGSERIAL PRIMARY KEY,
    queue    TEXT NOT NULL,
    key      TEXT,
    priority BIGINT,
    due      DOUBLE PRECISION,
    body     BYTEA NOT NULL,
    batch    BIGINT
);
CREATE INDEX outbox_batches_of ON outbox (queue, batch, id);
CREATE TABLE outbox_batches (
    queue    TEXT PRIMARY KEY,
    producer TEXT NOT NULL,
    last     BIGINT NOT NULL
);
"""
"""The tables, for PostgreSQL."""
SQLITE_SCHEMA: Final = SCHEMA.replace("BIGSERIAL", "INTEGER").replace("BYTEA", "BLOB")

_SEALED: Final = """
SELECT batch, id, key, priority, due, body FROM outbox
WHERE queue = %s AND batch = (SELECT min(batch) FROM outbox WHERE queue = %s) ORDER BY id
"""
_READY: Final = "SELECT id FROM outbox WHERE queue = %s AND batch IS NULL ORDER BY id LIMIT %s"
_COUNT: Final = "UPDATE outbox_batches SET last = last + 1 WHERE queue = %s"
_SEAL: Final = f"""
UPDATE outbox SET batch = (SELECT last FROM outbox_batches WHERE queue = %s) WHERE id IN ({_READY})
"""  # noqa: S608  # it is made of constants
_DELETE: Final = "DELETE FROM outbox WHERE queue = %s AND batch = %s"
_NAME: Final = "INSERT INTO outbox_batches VALUES (%s, %s, 0) ON CONFLICT DO NOTHING"
_NAMED: Final = "SELECT producer FROM outbox_batches WHERE queue = %s"
_UNNAME: Final = "DELETE FROM outbox_batches WHERE queue = %s"


class OutboxRelay:
    """Rows of the table `outbox`, on their way into queues.

    `connection` is one of the DB-API, for this alone, and not in autocommit. `queues` are names;
    one that is not there is made, a fifo. `mark` is what stands for a value in SQL: "%s", or "?"
    for sqlite3.

    >>> import sqlite3, tempfile
    >>> db = sqlite3.connect(":memory:")
    >>> _ = db.executescript(SQLITE_SCHEMA)
    >>> with tempfile.TemporaryDirectory() as folder, snowmelt.open(folder) as cluster:
    ...     with db:
    ...         _ = db.execute("INSERT INTO outbox (queue, body) VALUES ('letters', x'4a6f')")
    ...     OutboxRelay(db, cluster, ["letters"], mark="?").turn()
    ...     cluster.fifo("letters").get().body
    1
    b'Jo'
    """

    def __init__(
        self, connection: Any, cluster: Place, queues: Iterable[str], *, mark: str = "%s"
    ) -> None:
        self._connection, self._cluster, self._mark = connection, cluster, mark
        self._queues: dict[str, Any] = dict.fromkeys(queues)
        trial = uuid4().hex
        self._did(_NAME, trial, trial)
        connection.rollback()
        if self._did(_UNNAME, trial):
            connection.commit()
            raise BadOption("connection", "one in autocommit", "one that commits when it is asked")
        for name in self._queues:
            self._did(_NAME, name, f"outbox-{uuid4().hex}")
        connection.commit()

    def run(self, pause: float = 0.1) -> NoReturn:
        """Goes on for ever, in pauses of so many seconds where there is nothing; end it anyhow."""
        while True:
            if self.turn() == 0:
                time.sleep(pause)

    def turn(self, rows_max: int = 1000) -> int:
        """Puts the first rows of each queue, so many at most; returns how many that were.

        What can't be put, since no node answers or a queue is full, stays for the next turn.
        """
        moved = 0
        for name in self._queues:
            rows = self._sealed(name, rows_max)
            try:
                moved += self._published(name, rows) if rows else 0
            except (*AWAY, Full, NotStaged) as error:
                _LOG.warning("%d rows for %s stay in the outbox: %s", len(rows), name, error)
            except CallerError as error:
                error.add_note(
                    f"rows {rows[0][1]} to {rows[-1][1]} of the outbox, batch {rows[0][0]}"
                )
                raise
        return moved

    def _sealed(self, queue: str, rows_max: int) -> list[Any]:
        # Rule 2: those of the first number that was not put, or of a new one.
        rows = self._rows(_SEALED, queue, queue)
        if not rows and self._rows(_READY, queue, 1):
            self._did(_COUNT, queue)
            self._did(_SEAL, queue, queue, rows_max)
            self._connection.commit()
            rows = self._rows(_SEALED, queue, queue)
        self._connection.rollback()  # so that it holds nothing while it puts
        return rows

    def _published(self, name: str, rows: list[Any]) -> int:
        # Rules 3 to 5.
        queue, digest, receipts = self._queue(name), blake2b(digest_size=8), []
        for due, some in groupby(rows, key=itemgetter(4)):
            items, keys = [], []
            for _, row, key, priority, _, told in some:
                item = _item(name, queue, priority, told)
                digest.update(repr((row, key, priority, due, item)).encode())
                items.append(item)
                keys.append(None if key is None else as_key(key))
            labels, late = snowmelt.Labels(keys=tuple(keys)), max(0.0, (due or 0.0) - time.time())
            receipts += queue.stage(items, headers=labels, delay=late, hold=_HOLD)
        number, told = int(rows[0][0]), int.from_bytes(digest.digest()) or 1
        queue.publish(receipts, sequence=number, digest=told, timeout=_PATIENCE)
        self._did(_DELETE, name, number)
        self._connection.commit()
        return len(rows)

    def _queue(self, name: str) -> Any:
        if self._queues[name] is None:
            ((producer,),) = self._rows(_NAMED, name)
            self._connection.rollback()
            ranked = isinstance(self._cluster.queue(name), snowmelt.PriorityQueue)
            opened = self._cluster.priority if ranked else self._cluster.fifo
            self._queues[name] = opened(name, producer=producer)
        return self._queues[name]

    def _did(self, sql: str, *values: Any) -> int:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(sql.replace("%s", self._mark), values)
            return int(cursor.rowcount)

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(sql.replace("%s", self._mark), values)
            return list(cursor.fetchall())


def _item(name: str, queue: Any, priority: int | None, told: Any) -> Any:
    """What is put of a row."""
    body = told.encode() if isinstance(told, str) else bytes(told)
    if isinstance(queue, snowmelt.PriorityQueue):
        return priority or 0, body
    if priority is not None:
        raise BadOption("priority", priority, f"NULL, since queue {name} is a fifo")
    return body
