"""The honest work: items that go through a queue, items that stay in one, and a probe of each node.

All that happens is written down, a line each, with the moment (`Line`). The work is in steps: one
line on standard input ends the puts, takes what is left, and looks at what stayed.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from snowmelt.client.cluster import Cluster
from snowmelt.core.errors import Empty, LeaseLost, OutcomeUnknown, SnowmeltError
from snowmelt_world.attack.account import EACH_PRODUCER, Did, Line
from snowmelt_world.attack.setting import HONEST_PREFIX, AttackSetting, Target
from snowmelt_world.attack.speaking import connected
from snowmelt_world.storms.words import StdinWords

ORDERS: Final = f"{HONEST_PREFIX}orders"
KEPT: Final = f"{HONEST_PREFIX}kept"
RANKED: Final = f"{HONEST_PREFIX}kept-ranked"
BATON: Final = f"{HONEST_PREFIX}baton"
KEPT_ITEMS: Final = 200
RANKED_ITEMS: Final = 50
PRODUCERS: Final = 6
REFUSED_SECONDS: Final = 0.1
AHEAD_MOST: Final = 50
"""The puts are so many ahead of the acknowledgements at most."""
GET_SECONDS: Final = 1.0
PROBE_SECONDS: Final = 0.5
DRAIN_SECONDS: Final = 60.0
QUIET_SECONDS: Final = 3.0
LEASE_SECONDS: Final = 15.0
"""What a get took whose answer did not come is there again after this."""
UP: Final = "honest.up"
JOURNAL: Final = "honest.jsonl"


class Journal:
    """One file for all threads."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("ab")
        self._lock = threading.Lock()

    def write(self, did: Did, number: int = 0, text: str = "", took: float = 0.0) -> None:
        line = Line(time.monotonic(), did, number, text, took)
        with self._lock:
            self._file.write(msgspec.json.encode(line) + b"\n")
            self._file.flush()


def work(setting: AttackSetting, words: StdinWords) -> None:
    """Until it is asked to make its account."""
    journal = Journal(setting.folder / JOURNAL)
    with connected(setting.url, setting.honest) as cluster:
        _lay_down(cluster)
        worker = _Worker(setting, cluster, journal, words.stop)
        threads = [
            threading.Thread(target=one, daemon=True)
            for one in (*worker.puts(), worker.take, *worker.probes())
        ]
        for thread in threads:
            thread.start()
        (setting.folder / UP).touch()
        words.stop.wait()
        for thread in threads:
            thread.join(DRAIN_SECONDS + 2 * setting.answer_s)
        _look_at_kept(cluster, journal)


def _lay_down(cluster: Cluster) -> None:
    """What must be there at the end, untouched."""
    cluster.fifo(KEPT, replicas=2).put_many([b"%d" % one for one in range(KEPT_ITEMS)])
    ranked = cluster.priority(RANKED, replicas=2)
    for one in reversed(range(RANKED_ITEMS)):
        ranked.put(b"%d" % one, priority=one)
    with cluster.baton(BATON).acquire(timeout=GET_SECONDS * 10) as held:
        held.save(b"mine")


class _Worker:
    def __init__(
        self, setting: AttackSetting, cluster: Cluster, journal: Journal, stop: threading.Event
    ) -> None:
        self._setting = setting
        self._orders = cluster.fifo(ORDERS, replicas=2, lease=LEASE_SECONDS)
        self._journal = journal
        self._stop = stop
        self._put = [0] * PRODUCERS
        self._done = 0
        self._producing = PRODUCERS

    def puts(self) -> list[Callable[[], None]]:
        """One for each producer."""
        return [partial(self.put, one) for one in range(PRODUCERS)]

    def put(self, producer: int) -> None:
        """One item after another, never far ahead."""
        number = producer * EACH_PRODUCER
        while not self._stop.is_set():
            if sum(self._put) - self._done > AHEAD_MOST:
                time.sleep(0.002)
                continue
            number += 1
            begin = time.monotonic()
            try:
                self._orders.put(b"%d" % number, timeout=self._setting.answer_s)
            except OutcomeUnknown as error:
                self._journal.write(Did.PUT_UNSURE, number, str(error), time.monotonic() - begin)
            except SnowmeltError as error:
                self._journal.write(Did.PUT_REFUSED, number, repr(error), time.monotonic() - begin)
                time.sleep(REFUSED_SECONDS)
            else:
                self._put[producer] += 1
                self._journal.write(Did.PUT, number, took=time.monotonic() - begin)
        self._producing -= 1

    def take(self) -> None:
        """What comes is acknowledged; at the end until nothing comes any more."""
        quiet_since = end = failed = 0.0
        while True:
            now = time.monotonic()
            if not self._producing:
                end = end or now + DRAIN_SECONDS
                calm = max(quiet_since, failed + LEASE_SECONDS if failed else 0.0)
                if now > end or (quiet_since and now - calm > QUIET_SECONDS):
                    return
            try:
                items = self._orders.get_many(AHEAD_MOST, timeout=GET_SECONDS)
            except Empty:
                quiet_since = quiet_since or now
            except SnowmeltError as error:
                self._journal.write(Did.GET_FAILED, 0, repr(error), time.monotonic() - now)
                failed, quiet_since = time.monotonic(), 0.0
                time.sleep(REFUSED_SECONDS)
            else:
                quiet_since = 0.0
                for item in items:
                    self._journal.write(Did.GOT, _number(bytes(item.body)))
                self._acknowledge(items)

    def _acknowledge(self, items: Any) -> None:
        numbers = [_number(bytes(item.body)) for item in items]
        begin, text, did = time.monotonic(), "", Did.ACKED
        try:
            items.ack()
        except LeaseLost as error:
            did, text = Did.ACK_REFUSED, str(error)
        except SnowmeltError as error:
            did, text = Did.ACK_UNSURE, repr(error)
        else:
            self._done += len(numbers)
        for number in numbers:
            self._journal.write(did, number, text, time.monotonic() - begin)

    def probes(self) -> list[Callable[[], None]]:
        """One for each node, which asks whether it answers by itself."""
        return [partial(self._probe, one) for one in self._setting.targets]

    def _probe(self, target: Target) -> None:
        """A put, a get and an acknowledgement each half second, asked of this node."""
        name = f"{HONEST_PREFIX}probe-{target.name}"
        url = f"snowmelt://{target.address}/{self._setting.cluster}"
        while not self._stop.wait(PROBE_SECONDS):
            begin = time.monotonic()
            try:
                with connected(url, self._setting.honest) as cluster:
                    probe = cluster.fifo(name, replicas=2)
                    probe.put(b"there?", timeout=self._setting.answer_s)
                    with probe.get(timeout=self._setting.answer_s):
                        pass
            except SnowmeltError as error:
                took = time.monotonic() - begin
                self._journal.write(Did.PROBE_FAILED, 0, f"{target.name}: {error!r}", took)
            else:
                self._journal.write(Did.PROBED, 0, target.name, time.monotonic() - begin)


def _number(body: bytes) -> int:
    """Which item it is; below 0 for one that nobody honest has put."""
    with suppress(ValueError):
        return int(body)
    return -1


def _look_at_kept(cluster: Cluster, journal: Journal) -> None:
    for name, queue, count in (
        (KEPT, cluster.fifo(KEPT), KEPT_ITEMS),
        (RANKED, cluster.priority(RANKED), RANKED_ITEMS),
    ):
        said = ""
        try:
            bodies = [bytes(item.body) for item in queue.peek(count + 1)]
        except SnowmeltError as error:
            said = f"{name} can't be read: {error!r}"
        else:
            if bodies != [b"%d" % one for one in range(count)]:
                said = f"{name} had {count} items in order, and has {bodies[:5]}… ({len(bodies)})"
        journal.write(Did.KEPT if not said else Did.KEPT_LOST, 0, said or name)
    try:
        with cluster.baton(BATON).acquire(timeout=DRAIN_SECONDS / 2) as held:
            value = held.value
    except SnowmeltError as error:
        journal.write(Did.KEPT_LOST, 0, f"{BATON} can't be had: {error!r}")
    else:
        good = value == b"mine"
        said = BATON if good else f"the value of {BATON} was b'mine', and is {value!r}"
        journal.write(Did.KEPT if good else Did.KEPT_LOST, 0, said)
