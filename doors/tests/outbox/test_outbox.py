"""Each row that was committed is put once, whoever dies, and where."""

import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import snowmelt
from door_postgres import postgres  # noqa: F401  # a fixture
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt_doors.outbox import SCHEMA, SQLITE_SCHEMA, OutboxRelay

EXAMPLES = Path(__file__).parents[3] / "examples"
sys.path.append(str(EXAMPLES))
from outbox_shop import __main__ as shop  # noqa: E402  # it is where programs of this place are

INSERT = "INSERT INTO outbox (queue, key, priority, body) VALUES (%s, %s, %s, %s)"


class Base:
    """A database, empty at first; its server, where it has one."""

    def __init__(self, where: str, server: Any = None) -> None:
        self.where, self.server = where, server
        self.mark = "?" if server is None else "%s"
        self._opened: list[Any] = []

    def opened(self) -> Any:
        if self.server is None:
            self._opened.append(sqlite3.connect(self.where, timeout=30))
        else:
            self._opened.append(psycopg.connect(self.where))
        return self._opened[-1]

    def close(self) -> None:
        for one in self._opened:
            one.close()

    def empty(self) -> None:
        db = self.opened()
        for table in ("outbox", "outbox_batches", "orders", "bills", "inbox"):
            db.execute(f"DROP TABLE IF EXISTS {table}")
        db.commit()

    def make(self) -> Any:
        self.empty()
        db = self.opened()
        for statement in (SCHEMA if self.mark == "%s" else SQLITE_SCHEMA).split(";")[:-1]:
            db.execute(statement)
        db.commit()
        return db

    def write(self, db: Any, *rows: tuple[Any, ...]) -> None:
        for row in rows:
            db.execute(INSERT.replace("%s", self.mark), row)

    def rows(self, sql: str) -> list[Any]:
        db = self.opened()
        try:
            return list(db.execute(sql).fetchall())
        finally:
            db.close()


@pytest.fixture(params=["sqlite", "postgres"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Base]:
    if request.param == "sqlite":
        made = Base(str(tmp_path / "shop.db"))
    else:
        server = request.getfixturevalue("postgres")
        made = Base(server.dsn, server)
    yield made
    made.close()


@pytest.fixture
def db(base: Base) -> Any:
    return base.make()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with snowmelt.open(tmp_path_factory.mktemp("queues")) as made:
        yield made


def drained(queue: Any) -> list[Any]:
    items = []
    for item in queue.consume(timeout=0):
        items.append(item)
        item.ack()
    return items


def test_rows_go_where_they_are_to_with_key_and_priority(base: Base, db: Any, cluster: Any) -> None:
    letters, urgent = cluster.fifo("letters"), cluster.priority("urgent")
    urgent.create()
    rows = [("letters", "anna", None, b"one"), ("urgent", None, 7, b"late")]
    rows += [("letters", None, None, b"two"), ("urgent", "ben", -1, b"soon")]
    rows += [("elsewhere", None, None, b"waits"), ("urgent", None, None, b"now")]
    outbox = OutboxRelay(base.opened(), cluster, ["letters", "urgent"], mark=base.mark)
    base.write(db, *rows)
    assert outbox.turn() == 0  # nothing was committed
    db.rollback()
    assert outbox.turn() == 0
    base.write(db, *rows)
    db.commit()
    assert (outbox.turn(), outbox.turn()) == (5, 0)
    assert [(one.body, one.key) for one in drained(letters)] == [(b"one", b"anna"), (b"two", None)]
    assert [(one.body, one.priority) for one in drained(urgent)] == [
        (b"soon", -1), (b"now", 0), (b"late", 7),
    ]  # fmt: skip
    assert [row[0] for row in base.rows("SELECT queue FROM outbox")] == ["elsewhere"]


def test_order_by_key_holds_for_what_came_from_an_outbox(base: Base, db: Any, cluster: Any) -> None:
    orders = cluster.fifo("by-key", in_order_by_key=True)
    orders.create()
    base.write(db, *(("by-key", key, None, key.encode()) for key in "aab"))
    db.commit()
    outbox = OutboxRelay(base.opened(), cluster, ["by-key"], mark=base.mark)
    assert [outbox.turn(rows_max=2), outbox.turn(rows_max=2)] == [2, 1]
    first, other = orders.get(timeout=1), orders.get(timeout=1)
    assert (first.body, other.body) == (b"a", b"b")
    with pytest.raises(snowmelt.Empty):
        orders.get(timeout=0)
    first.ack()
    assert orders.get(timeout=1).body == b"a"
    cluster.delete("by-key")


class Dying:
    """A connection, or a cluster, one of whose calls is the last of its process."""

    def __init__(self, real: Any, left: list[int], *, done: bool) -> None:
        self._real, self._left, self._done = real, left, done

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        return self._counted(found) if name in {"execute", "commit", "stage", "publish"} else found

    def cursor(self) -> Any:
        return Dying(self._real.cursor(), self._left, done=self._done)

    def fifo(self, *names: Any, **options: Any) -> Any:
        return Dying(self._real.fifo(*names, **options), self._left, done=self._done)

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*values: Any, **options: Any) -> Any:
            self._left[0] -= 1
            if self._left[0] == 0:
                if self._done:  # it is done, and its answer is lost
                    call(*values, **options)
                raise KeyboardInterrupt
            return call(*values, **options)

        return counted


@pytest.mark.parametrize("done", [False, True])
def test_a_relay_may_die_at_each_of_its_calls(
    base: Base, db: Any, cluster: Any, done: bool
) -> None:
    expected, last, died = list[bytes](), 0, True
    while died:
        last += 1
        bodies = [f"{last}-{number}".encode() for number in range(3)]
        base.write(db, *(("dying", None, None, body) for body in bodies))
        db.commit()
        expected += bodies
        left, connection = [last], base.opened()
        both = [Dying(one, left, done=done) for one in (connection, cluster)]
        try:
            OutboxRelay(*both, ["dying"], mark=base.mark).turn()
        except KeyboardInterrupt:
            connection.close()
            base.write(db, ("dying", None, None, b"%d-after" % last))  # it is no part of the first
            db.commit()
            expected.append(b"%d-after" % last)
        else:
            died = False
        outbox = OutboxRelay(base.opened(), cluster, ["dying"], mark=base.mark)
        while outbox.turn():
            pass
    assert last > 12
    assert [one.body for one in drained(cluster.fifo("dying"))] == expected
    assert base.rows("SELECT * FROM outbox") == []
    cluster.delete("dying")


def test_numbers_of_a_database_from_a_backup_are_refused(base: Base, db: Any, cluster: Any) -> None:
    outbox = OutboxRelay(base.opened(), cluster, ["restored"], mark=base.mark)
    for turn in range(3):
        base.write(db, ("restored", None, None, b"%d" % turn))
        db.commit()
        assert outbox.turn() == 1
    db.execute("UPDATE outbox_batches SET last = 1")
    base.write(db, ("restored", None, None, b"new"))
    db.commit()
    with pytest.raises(snowmelt.AlreadyPublished, match="not the same; nothing was put"):
        outbox.turn()
    # What the page says to do:
    db.execute("UPDATE outbox SET batch = NULL")
    db.execute("DELETE FROM outbox_batches")
    db.commit()
    assert OutboxRelay(base.opened(), cluster, ["restored"], mark=base.mark).turn() == 1
    assert [one.body for one in drained(cluster.fifo("restored"))] == [b"0", b"1", b"2", b"new"]
    cluster.delete("restored")


def test_a_full_queue_holds_up_no_other(base: Base, db: Any, cluster: Any) -> None:
    full, free = cluster.fifo("full", max_items=1), cluster.fifo("free")
    full.create()
    outbox = OutboxRelay(base.opened(), cluster, ["full", "free"], mark=base.mark)
    base.write(db, *(("full", None, None, b"%d" % one) for one in range(2)))
    base.write(db, ("free", None, None, b"free"))
    db.commit()
    assert [outbox.turn(rows_max=1), outbox.turn(rows_max=1)] == [2, 0]
    assert full.get().body == b"0"
    (first,) = drained(free)
    assert first.body == b"free"
    cluster.delete("full")


def test_another_database_may_put_the_same_rows(base: Base, db: Any, cluster: Any) -> None:
    for _ in range(2):
        base.write(db, ("others", None, None, b"same"))
        db.commit()
        assert OutboxRelay(base.opened(), cluster, ["others"], mark=base.mark).turn() == 1
        base.close()
        db = base.make()
    assert len(drained(cluster.fifo("others"))) == 2


def test_rows_that_can_not_be_put_are_named_and_may_be_mended(
    base: Base, db: Any, cluster: Any
) -> None:
    base.write(db, ("mended", "anna", None, b"good"), ("mended", "a" * 300, None, b"bad"))
    db.commit()
    outbox = OutboxRelay(base.opened(), cluster, ["mended"], mark=base.mark)
    with pytest.raises(snowmelt.BadOption, match="key") as told:
        outbox.turn()
    assert told.value.__notes__ == ["rows 1 to 2 of the outbox, batch 1"]
    db.execute("UPDATE outbox SET key = NULL WHERE id = 2")
    db.commit()
    assert outbox.turn() == 2


def test_a_row_that_is_due_later_comes_then(base: Base, db: Any, cluster: Any) -> None:
    due = time.time() + 1.5
    row = "INSERT INTO outbox (queue, due, body) VALUES (%s, %s, %s)".replace("%s", base.mark)
    for said, body in ((due, b"later"), (None, b"now"), (None, b"then"), (due - 60, b"late")):
        db.execute(row, ("timed", said, body))
    db.commit()
    assert OutboxRelay(base.opened(), cluster, ["timed"], mark=base.mark).turn() == 4
    queue = cluster.fifo("timed")
    assert [one.body for one in drained(queue)] == [b"now", b"then", b"late"]
    assert time.time() < due
    assert queue.get(timeout=10).body == b"later"
    assert time.time() >= due


def test_a_priority_for_a_fifo_is_refused(base: Base, db: Any, cluster: Any) -> None:
    base.write(db, ("plain", None, 7, b"urgent"))
    db.commit()
    with pytest.raises(snowmelt.BadOption, match="NULL, since queue plain is a fifo"):
        OutboxRelay(base.opened(), cluster, ["plain"], mark=base.mark).turn()


def test_a_connection_in_autocommit_is_refused(
    base: Base,
    db: Any,  # noqa: ARG001
    cluster: Any,
) -> None:
    connection = base.opened()
    if base.mark == "%s":
        connection.autocommit = True
    else:
        connection.isolation_level = None
    with pytest.raises(snowmelt.BadOption, match="autocommit"):
        OutboxRelay(connection, cluster, [], mark=base.mark)
    connection.close()
    assert base.rows("SELECT * FROM outbox_batches") == []


# --- the shop of the example ----------------------------------------------------------------------


class Shop:
    """Programs of the example, each started again when it ends."""

    def __init__(self, base: Base, url: str, folder: Path) -> None:
        base.empty()
        self.base = base
        self._options = ["--database", base.where, "--cluster", url]
        self._env = os.environ | {"PYTHONPATH": str(EXAMPLES)}
        self.log = folder / "shop.log"
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def begin(self, name: str) -> None:
        command = [sys.executable, "-m", "outbox_shop", name.partition("-")[0], *self._options]
        with self.log.open("ab") as log:
            self.running[name] = subprocess.Popen(command, env=self._env, stdout=log, stderr=log)

    def sell(self, first: int, count: int) -> None:
        """Writes orders, a tenth of which are rolled back."""
        options = ["--database", self.base.where, "--first", str(first), "--count", str(count)]
        shop.main(["sell", *options])

    def kill(self, name: str) -> None:
        self.running[name].kill()
        self.running[name].wait()

    def again(self) -> None:
        """Starts what ended."""
        for name, one in list(self.running.items()):
            if one.poll() is not None:
                self.begin(name)


@pytest.mark.timeout(180)
def test_the_shop_bills_each_order_once(base: Base, tmp_path: Path) -> None:
    storm(base, tmp_path, kills=4, seed=1, orders=400)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_shop_bills_each_order_once_in_a_long_storm(base: Base, tmp_path: Path) -> None:
    storm(base, tmp_path, kills=60, seed=2, orders=6_000)


def storm(base: Base, folder: Path, *, kills: int, seed: int, orders: int) -> None:
    """Two relays, two who bill, a node and a database: each is killed at drawn points."""
    chance, killed = random.Random(seed), dict.fromkeys(("relay", "bill", "node", "database"), 0)
    with LocalCluster(1, folder / "node", 0.5) as cluster:
        cluster.start()
        with snowmelt.connect(cluster.url) as made:
            made.fifo("orders", lease=2, max_deliveries=1000).create()
        both = Shop(base, cluster.url, folder)
        shop.main(["make", "--database", base.where])
        try:
            for name in ("relay-1", "relay-2", "bill-1", "bill-2"):
                both.begin(name)
            each = orders // kills
            for turn in range(kills):
                both.sell(turn * each, each)
                if turn == 0:
                    settle(both, cluster.nodes[0])  # all of them work by then
                time.sleep(chance.uniform(0, 0.3 + each / 400))
                what = list(killed)[turn % len(killed)]
                killed[what] += kill(what, both, cluster.nodes[0], chance)
                both.again()
            settle(both, cluster.nodes[0])
        finally:
            for one in both.running.values():
                one.kill()
                one.wait()
    told = base.rows("SELECT id FROM orders ORDER BY id")
    print(f"{len(told)} orders; killed: {killed}")
    assert len(told) == orders * 9 // 10
    assert base.rows("SELECT order_id FROM bills ORDER BY order_id") == told
    assert base.rows("SELECT count(*) FROM inbox") == [(len(told),)]


def kill(what: str, both: Shop, node: LocalNode, chance: random.Random) -> int:
    match what:
        case "node":
            node.kill()
            node.start()
        case "database" if both.base.server is None:
            return 0
        case "database":
            both.base.server.kill()
            both.base.server.start()
        case _:
            both.kill(f"{what}-{chance.choice((1, 2))}")
    return 1


def settle(both: Shop, node: LocalNode, patience: float = 60) -> None:
    """Waits until all is relayed and billed, for as long as there is more billed each minute."""
    billed, end = -1, 0.0
    with snowmelt.connect(node.url) as cluster:
        queue = cluster.fifo("orders")
        while True:
            both.again()
            status, ((left,),) = queue.stats(), both.base.rows("SELECT count(*) FROM outbox")
            if left + status.ready + status.leased == 0:
                return
            before, ((billed,),) = billed, both.base.rows("SELECT count(*) FROM bills")
            if billed > before:
                end = time.monotonic() + patience
            said = f"{left} in the outbox; {status}; {both.log.read_text()[-4000:]}"
            assert time.monotonic() < end, said
            time.sleep(0.1)


def test_the_whole_shop_in_one_program(tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(EXAMPLES)}
    command = [sys.executable, "-m", "outbox_shop", "--count", "20"]
    ran = subprocess.run(
        command, check=False, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )
    assert (ran.stdout, ran.stderr) == ("18 orders, 18 bills\n", "")
