"""Loops that are dropped, and collected wherever the collector of garbage happens to come by."""

from collections.abc import Callable

import pytest

from ordinary.kinds import Kind, opened, rest, settled

COLLECTED = """
import gc, sys, threading
from ordinary.kinds import Account, of, opened, rest

url, name, kind, rounds = sys.argv[1:4] + [int(sys.argv[4])]
account = Account()

def drop(queue):
    # Only the collector can find it, in the middle of whatever comes next.
    loop = queue.consume(timeout=5, prefetch=3)
    next(loop)
    around = [loop]
    around.append(around)

def work(queue, first):
    for number in range(first, first + rounds):
        body = account.putting(number)
        queue.put(body)
        account.kept.add(body)
        if number % 5 == 0:
            drop(queue)
        if number % 2:
            item = queue.get_one(timeout=20)
            account.came(bytes(item.body))
            item.ack()
            account.done[bytes(item.body)] += 1

with opened(of(kind), url, name) as queue:
    gc.set_threshold(7, 2, 2)
    threads = [threading.Thread(target=work, args=(queue, at * rounds)) for at in range(1, 3)]
    for one in threads:
        one.start()
    work(queue, 0)
    for one in threads:
        one.join()
    gc.set_threshold(700, 10, 10)
    gc.collect()
    account.check(rest(queue))
print("done")
"""


def test_a_loop_that_is_collected_stops_nothing_and_loses_nothing(
    where: tuple[type[Kind], str], name: str, times: int, program: Callable[..., str]
) -> None:
    kind, url = where
    said = program(COLLECTED, url, name, kind.__name__, 30 * times, seconds=60 + 20 * times)
    assert said == "done\n"


@pytest.mark.parametrize("ahead", [0, 3])
def test_a_loop_that_is_left_gives_all_back_at_once(
    where: tuple[type[Kind], str], name: str, ahead: int
) -> None:
    kind, url = where
    with opened(kind, url, name) as queue:
        for number in range(8):
            queue.put(b"%d" % number)
        for number, _ in enumerate(queue.consume(timeout=5, prefetch=ahead or 1)):
            if number == 2:
                break
        settled(queue, seconds=1.5)  # less than the lease
        assert len(rest(queue)) in {6, 8}  # the pool's loop has settled two
