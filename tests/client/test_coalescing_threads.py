"""What threads ask goes together, where the port is held still until a test lets it go on."""

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import snowmelt
from snowmelt.cli.local import LocalNode
from snowmelt.client.coalescing.joint import AGAIN, CallerRequest, Value
from snowmelt.client.coalescing.machine import Coalescer
from snowmelt.client.coalescing.threads import ThreadCoalescer
from snowmelt.client.connection.steps import Query, Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.core.errors import Full, OutcomeUnknown, SnowmeltError
from snowmelt.core.instant import seconds

WAIT = 20.0


class Doors:
    """A port: each call stands at a door of its own until that is opened."""

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []
        self.came = threading.Semaphore(0)
        self.opened = threading.Semaphore(0)
        self.refuses: set[Any] = set()

    def call(self, body: Any, timeout: float, target: Any = None, weight: int = 0) -> Any:
        del target, weight
        self.calls.append(body)
        self.came.release()
        if not self.opened.acquire(timeout=timeout):
            raise OutcomeUnknown(f"no answer to {body}")
        if self.refuses & set(body):
            raise Full(f"no room for {body}")
        return body

    def open(self, calls: int = 1) -> None:
        """Lets so many calls be answered."""
        self.opened.release(calls)

    def wait(self) -> None:
        """Until one more call stands at its door."""
        assert self.came.acquire(timeout=WAIT)


class Echoes:
    """A kind: everybody is told what it asked; who asked for nothing asks again."""

    worth = 100
    ordered = True

    def __init__(self, *, repeats: bool = True) -> None:
        self.repeats = repeats
        self.hungry: set[Any] = set()

    def call(self, asked: Sequence[CallerRequest]) -> Steps[Any]:
        left = max(each.wait.left for each in asked)
        return (yield Query([each.what for each in asked], left))

    def share(
        self, answer: Any, asked: Sequence[CallerRequest | None]
    ) -> tuple[list[Value], Value]:
        del asked
        if len(answer) == 1:
            return answer, None
        told = [AGAIN if what in self.hungry else what for what in answer]
        self.hungry -= set(answer)
        return told, None

    def late(self, asked: CallerRequest, *, gone: bool) -> Value:
        return OutcomeUnknown(f"{asked.what} {'gone' if gone else 'not sent'}")

    def unclaimed(self, value: Value) -> Steps[None]:
        del value
        yield from ()


class Scene:
    """Threads, and the line that they ask."""

    def __init__(self, pool: ThreadPoolExecutor, *, repeats: bool = True) -> None:
        self.doors = Doors()
        self.kind = Echoes(repeats=repeats)
        self.line = ThreadCoalescer(self.doors, self.kind)
        self._pool = pool
        self._asked = 0

    def asks(self, what: Any, timeout: float = WAIT) -> "Future[Any]":
        """A thread asks this, and all have asked when it is back."""
        begun = threading.Event()

        def work() -> Any:
            wait = Wait(timeout)
            begun.set()
            return self.line.ask(CallerRequest(what, wait, "key", 1))

        told = self._pool.submit(work)
        assert begun.wait(WAIT)
        return told


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as pool:
        yield pool


def test_nobody_waits_for_another_s_silence_for_long(pool: ThreadPoolExecutor) -> None:
    scene = Scene(pool)
    first = scene.asks("a")
    scene.doors.wait()
    second = scene.asks("b")
    scene.doors.wait()  # though nobody has answered the first
    assert scene.doors.calls == [["a"], ["b"]]
    scene.doors.open(2)
    assert {first.result(WAIT), second.result(WAIT)} == {"a", "b"}


def test_each_of_many_threads_is_told_its_own_in_fewer_calls(pool: ThreadPoolExecutor) -> None:
    scene = Scene(pool)
    scene.doors.open(10_000)

    def work(thread: int) -> None:
        for at in range(200):
            assert scene.line.ask(CallerRequest((thread, at), Wait(WAIT), "key", 1)) == (thread, at)

    for done in [pool.submit(work, thread) for thread in range(16)]:
        done.result(60)
    told = [what for call in scene.doors.calls for what in call]
    assert Counter(told) == Counter((thread, at) for thread in range(16) for at in range(200))
    for thread in range(16):
        assert [at for one, at in told if one == thread] == list(range(200))


def test_what_is_refused_refuses_its_own_thread_alone(pool: ThreadPoolExecutor) -> None:
    scene = Scene(pool)
    scene.doors.refuses = {13}
    scene.doors.open(10_000)
    asked = {at: scene.asks(at) for at in range(16)}
    for at, one in asked.items():
        if at == 13:
            with pytest.raises(Full):
                one.result(WAIT)
        else:
            assert one.result(WAIT) == at


def test_each_thread_waits_no_longer_than_its_own_time(pool: ThreadPoolExecutor) -> None:
    scene = Scene(pool)
    first = scene.asks("a")
    scene.doors.wait()
    hasty = scene.asks("hasty", timeout=0.05)
    with pytest.raises(OutcomeUnknown):
        hasty.result(WAIT)
    scene.doors.open(100)
    assert first.result(WAIT) == "a"


def test_who_got_nothing_asks_again(pool: ThreadPoolExecutor) -> None:
    scene = Scene(pool)
    scene.kind.hungry = {"c", "d", "g"}
    told = [scene.asks(what) for what in "abcdefgh"]
    scene.doors.open(10_000)
    assert [one.result(WAIT) for one in told] == list("abcdefgh")


def until(came: Callable[[], bool]) -> None:
    """Waits for it, though not for ever: a thread of a test that failed is waited for, too."""
    end = time.monotonic() + WAIT
    while not came():
        assert time.monotonic() < end
        time.sleep(0.001)


class Interrupted(BaseException):
    """What a handler of signals raises."""


@contextmanager
def handling(handler: Any) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def disturb_main(handled: threading.Event) -> None:
    """Sends a signal until it is handled: one that comes just before a wait begins is not seen."""

    def sent() -> bool:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        return handled.wait(0.01)

    until(sent)


@pytest.mark.parametrize("repeats", [True, False], ids=["asked again", "unknown"])
def test_a_thread_that_is_interrupted_leaves_the_others_their_call(
    pool: ThreadPoolExecutor, repeats: bool
) -> None:
    scene = Scene(pool, repeats=repeats)
    # so that nobody goes before the first call is back
    line = scene.line._coalescer = Coalescer(100, seconds(WAIT), ordered=True)
    others: list[Future[Any]] = []

    interrupted = threading.Event()

    def interrupt(*_: object) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise Interrupted

    def disturb() -> None:
        until(lambda: len(line._waiting) == 4)  # three others, and the main thread
        scene.doors.open()
        scene.doors.wait()  # the second, by whoever has the most time: the main thread
        disturb_main(interrupted)

    begun = scene.asks("begun")
    scene.doors.wait()  # the first call, by a thread of the pool
    others = [scene.asks(at, timeout=10) for at in range(3)]
    disturbing = pool.submit(disturb)
    with handling(interrupt), pytest.raises(Interrupted):
        scene.line.ask(CallerRequest("mine", Wait(60), "key", 1))
    scene.doors.open(100)
    disturbing.result(WAIT)
    assert begun.result(WAIT) == "begun"
    for at, one in enumerate(others):
        try:
            assert one.result(WAIT) == at
        except OutcomeUnknown:
            assert not repeats


@contextmanager
def interrupted_at(step: str) -> Iterator[None]:
    """This thread is interrupted when it comes to this step of the line."""

    def trace(frame: Any, event: str, _: Any) -> Any:
        if event == "call" and frame.f_code.co_name == step:
            sys.settrace(None)
            raise Interrupted

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("step", ["_parted", "cut", "_make", "share", "tell", "answered"])
def test_wherever_a_thread_is_interrupted_the_others_are_told_their_own(
    pool: ThreadPoolExecutor, step: str
) -> None:
    scene = Scene(pool)
    line = scene.line._coalescer = Coalescer(100, seconds(60), ordered=True)
    begun = scene.asks("begun")
    scene.doors.wait()
    others = [scene.asks(at) for at in range(3)]
    over = threading.Event()

    def let_go() -> None:
        while len(line._waiting) < len(others) + 1 and not over.is_set():
            over.wait(0.001)
        scene.doors.open(100)

    going = pool.submit(let_go)
    until(lambda: len(line._waiting) == len(others))
    with interrupted_at(step), suppress(Interrupted):
        scene.line.ask(CallerRequest("mine", Wait(60), "key", 1))
    over.set()
    going.result(WAIT)
    assert begun.result(WAIT) == "begun"
    assert [one.result(WAIT) for one in others] == [0, 1, 2]
    assert not line._tickets


def test_a_handler_of_signals_asks_though_its_thread_is_within_a_call(
    pool: ThreadPoolExecutor,
) -> None:
    scene = Scene(pool)
    told: list[Any] = []

    handled = threading.Event()

    def handle(*_: object) -> None:
        if handled.is_set():
            return
        handled.set()
        scene.doors.open(2)
        told.append(scene.line.ask(CallerRequest("handler", Wait(WAIT), "key", 1)))

    def disturb() -> None:
        scene.doors.wait()
        disturb_main(handled)

    disturbing = pool.submit(disturb)
    with handling(handle):
        assert scene.line.ask(CallerRequest("mine", Wait(WAIT), "key", 1)) == "mine"
    disturbing.result(WAIT)
    assert told == ["handler"]


@pytest.mark.parametrize("kind", ["fifo", "priority"])
def test_threads_that_share_a_queue_lose_nothing_and_get_nothing_twice(
    node: LocalNode, kind: str
) -> None:
    with snowmelt.connect(node.url) as cluster, ThreadPoolExecutor(16) as pool:
        queue = getattr(cluster, kind)(f"threads-{kind}")

        def put(thread: int) -> list[tuple[int, bytes]]:
            named = [b"%d-%d" % (thread, at) for at in range(25)]
            return [(queue.put(body), body) for body in named]

        def take(_: int) -> list[tuple[int, bytes]]:
            came = []
            for _ in range(25):
                with queue.get(timeout=WAIT) as item:
                    came.append((item.position, item.body))
            return came

        puts = [pair for each in pool.map(put, range(16)) for pair in each]
        takes = [pair for each in pool.map(take, range(16)) for pair in each]
        assert len(set(puts)) == 400
        assert sorted(takes) == sorted(puts)
        stats = queue.stats()
        assert (stats.ready, stats.leased) == (0, 0)


def test_an_embedded_queue_is_shared_by_threads_just_so(tmp_path: Any) -> None:
    with snowmelt.open(tmp_path) as cluster, ThreadPoolExecutor(8) as pool:
        for queue in (cluster.fifo("a"), cluster.priority("b", max_items=50)):
            told = list(pool.map(_outcome, [queue] * 80, range(80)))
            room = 80 if queue.name == "a" else 50
            assert Counter(told) == Counter({"put": room} | ({"Full": 30} if room == 50 else {}))
            assert sum(1 for _ in queue.get_many(100)) == room


def _outcome(queue: Any, at: int) -> str:
    try:
        queue.put(b"%d" % at, timeout=0)
    except SnowmeltError as error:
        return type(error).__name__
    return "put"
