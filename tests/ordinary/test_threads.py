"""Threads that share a queue and a loop, and threads that are dropped with something in hand."""

import threading
import time
from contextlib import suppress

import snowmelt
from ordinary.kinds import Account, Kind, Pool, opened, rest
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import Empty


def test_threads_share_a_loop_and_each_item_is_one_threads(
    where: tuple[type[Kind], str], name: str, times: int
) -> None:
    kind, url = where
    count = 200 * times
    with opened(kind, url, name) as queue:
        loop = queue.consume(timeout=3)
        came: list[bytes] = []

        def work() -> None:
            for item in loop:
                came.append(bytes(item.body))
                if kind.__name__ != "Pool":
                    item.ack()

        threads = [threading.Thread(target=work) for _ in range(6)]
        for one in threads:
            one.start()
        for number in range(count):
            queue.put(b"%d" % number)
        for one in threads:
            one.join(60)
        assert sorted(came, key=int) == [b"%d" % number for number in range(count)]
        assert rest(queue) == []


def test_what_one_thread_has_in_hand_is_not_done_when_another_asks_for_the_next(
    node: LocalNode, name: str
) -> None:
    with opened(Pool, node.url, name) as queue:
        for number in range(3):
            queue.put(b"%d" % number)
        loop = queue.consume(timeout=3)
        held = next(loop)
        other = threading.Thread(target=lambda: [one.body for one in loop])
        other.start()
        other.join(20)
        time.sleep(0.1)
        assert queue.maker.stats().on_loan == 1, "what this thread has in hand"
        held.nack()
        assert rest(queue) == [held.body]


def test_a_thread_that_dies_with_something_in_hand_keeps_it_from_nobody(
    where: tuple[type[Kind], str], name: str, times: int
) -> None:
    kind, url = where
    account = Account()
    with opened(kind, url, name) as queue:
        for number in range(20 * times):
            body = account.putting(number)
            queue.put(body)
            account.kept.add(body)

        def work() -> None:
            with suppress(SystemExit, Empty):
                for number, item in enumerate(queue.consume(timeout=3)):
                    if number == 2:
                        raise SystemExit
                    account.came(bytes(item.body))
                    if kind.__name__ != "Pool":
                        item.ack()
                    account.done[bytes(item.body)] += 1
                queue.get_one(timeout=0)  # and drops it

        for _ in range(3 * times):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join(60)
        account.check(rest(queue))


def test_a_thread_that_waits_for_a_turn_ends_with_its_cluster(node: LocalNode, name: str) -> None:
    ended: list[BaseException] = []
    with snowmelt.connect(node.url) as other, other.baton(name):
        cluster = snowmelt.connect(node.url)

        def wait() -> None:
            try:
                cluster.baton(name).acquire(timeout=30)
            except snowmelt.SnowmeltError as error:
                ended.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        while not any(one.waiting for one in other.baton(name).status()):
            assert thread.is_alive()
        cluster.close()
        thread.join(10)
    assert [type(one) for one in ended] == [snowmelt.Closed]
