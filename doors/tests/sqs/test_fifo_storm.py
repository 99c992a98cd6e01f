"""A FIFO queue, of which doors, the node and programs die: a history of each group is judged.

One program sends to each group, the next message when the one before is there; it sends again what
it is not sure of, and now and then what it is sure of. Programs that receive delete in order. Now
and then one dies: it deletes nothing more of what it has. Others die within a request.

1. What was answered as sent is received, and what is received was sent.
2. What was sent several times under one deduplication id is one message.
3. A message is received when all before it of its group were deleted, or stand before it in the
   same answer.
4. While one of a group is in flight no other answer has any of that group.
5. What was deleted within its time is not received again.
"""

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from snowmelt.protocols.queue.state.by_key import ByKey
from snowmelt_doors.sqs.deduplication import WINDOW, Deduplication
from snowmelt_doors.sqs.queues import SqsQueues
from snowmelt_doors.sqs.receiving import MessageReceiver
from snowmelt_doors.sqs.sending import MessageSender

from .conftest import Doors, client_of
from .test_storm import ask, kill, running

VISIBILITY = 2
GROUPS = 6
FAILED = BotoCoreError, ClientError


class Answer(msgspec.Struct):
    """What one receive brought."""

    asked: float
    came: float
    bodies: list[tuple[str, int]]
    """Groups and numbers, in order."""


class GroupHistory:
    """What programs saw."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tried: set[tuple[str, int]] = set()
        self.sent: set[tuple[str, int]] = set()
        self.ids: dict[tuple[str, int], set[str]] = {}
        """Which messages each was, when it was received."""
        self.answers: list[Answer] = []
        self.said: dict[tuple[str, int], list[float]] = {}
        """When programs began to delete each."""
        self.gone: dict[tuple[str, int], float] = {}
        """When each was deleted, within its time."""

    @property
    def missing(self) -> set[tuple[str, int]]:
        return self.sent - set(self.ids)

    def faults(self) -> list[str]:
        """What is not as the rules say."""
        found = [f"{one} was sent, and never received" for one in sorted(self.missing)]
        found += [f"{one} was never sent" for one in sorted(set(self.ids) - self.tried)]
        found += [
            f"{one} is there {len(ids)} times" for one, ids in self.ids.items() if len(ids) > 1
        ]
        for answer in self.answers:
            found += self._out_of_order(answer)
            late = [one for one in answer.bodies if answer.asked > self.gone.get(one, answer.asked)]
            found += [f"{one} was received after it was deleted" for one in late]
        for group in {group for group, _ in self.ids}:
            found += self._shared(group)
        return found

    def _before(self, one: tuple[str, int], moment: float) -> bool:
        """Whether somebody had begun to delete it by then."""
        return any(said < moment for said in self.said.get(one, ()))

    def _out_of_order(self, answer: Answer) -> Iterator[str]:
        # Rule 3.
        for at, (group, number) in enumerate(answer.bodies):
            for earlier in range(number):
                one = group, earlier
                if one not in answer.bodies[:at] and not self._before(one, answer.came):
                    yield f"{group, number} was received before {one} was deleted"

    def _shared(self, group: str) -> Iterator[str]:
        # Rule 4.
        some = [(one, [each for each in one.bodies if each[0] == group]) for one in self.answers]
        some = sorted([pair for pair in some if pair[1]], key=lambda pair: pair[0].came)
        for at, (first, own) in enumerate(some):
            for other, _ in some[at + 1 :]:
                if other.asked < first.came or other.came > first.asked + VISIBILITY - 0.05:
                    continue
                held = [one for one in own if not self._before(one, other.came)]
                if held:
                    yield f"{held[0]} was in flight, and others of its group were received"


def test_a_judge_finds_each_fault() -> None:
    history = GroupHistory()
    a, b = "a", "b"
    history.tried = {(a, 0), (a, 1), (b, 0)}
    history.sent = {(a, 0), (a, 1), (b, 0)}
    history.ids = {(a, 0): {"1", "2"}, (a, 1): {"3"}, ("c", 0): {"4"}}
    history.answers = [
        Answer(0.0, 0.1, [(a, 1)]),
        Answer(1.0, 1.1, [(a, 0)]),
        Answer(9.0, 9.1, [(a, 0)]),
    ]
    history.said = {(a, 0): [1.2]}
    history.gone = {(a, 0): 1.3}
    assert sorted(history.faults()) == [
        "('a', 0) is there 2 times",
        "('a', 0) was received after it was deleted",
        "('a', 1) was in flight, and others of its group were received",
        "('a', 1) was received before ('a', 0) was deleted",
        "('b', 0) was sent, and never received",
        "('c', 0) was never sent",
    ]


def test_a_judge_lets_pass_what_may_be() -> None:
    history = GroupHistory()
    both = [("a", 0), ("a", 1)]
    history.tried = history.sent = set(both)
    history.ids = {one: {str(one)} for one in both}
    history.answers = [Answer(0.0, 0.1, both), Answer(4.0, 4.1, both), Answer(5.0, 5.1, both[1:])]
    history.said = {both[0]: [4.5]}
    assert list(history.faults()) == [
        "('a', 1) was in flight, and others of its group were received"
    ]
    history.answers[2] = Answer(8.0, 8.1, both[1:])
    assert list(history.faults()) == []


# --- programs -------------------------------------------------------------------------------------


def send(clients: list[Any], url: str, history: GroupHistory, stop: Any, groups: list[str]) -> None:
    """Messages of some groups, one after the other, until it is to stop."""
    chance, number = random.Random(groups[0]), 0
    while not stop.is_set():
        for group in groups:
            one = group, number
            with history.lock:
                history.tried.add(one)
            while True:
                words = {"MessageGroupId": group, "MessageDeduplicationId": f"{group}-{number}"}
                try:
                    chance.choice(clients).send_message(
                        QueueUrl=url, MessageBody=f"{group} {number}", **words
                    )
                except FAILED:
                    time.sleep(0.1)
                    continue
                with history.lock:
                    history.sent.add(one)
                time.sleep(0.04)
                if chance.random() > 0.15:
                    break
        number += 1


def receive(clients: list[Any], url: str, history: GroupHistory, over: Any, name: str) -> None:
    """Receives, and deletes in order; now and then it dies, and another one goes on."""
    chance = random.Random(name)
    while not over.is_set():
        client, asked = chance.choice(clients), time.monotonic()
        try:
            got = client.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=chance.choice((1, 4, 10)),
                WaitTimeSeconds=chance.choice((0, 0, 1)),
            )
        except FAILED:
            time.sleep(0.1)
            continue
        if not got.get("Messages"):
            time.sleep(0.05)
        told = [(one, one["Body"].split()) for one in got.get("Messages", [])]
        answer = Answer(asked, time.monotonic(), [(group, int(at)) for _, (group, at) in told])
        with history.lock:
            history.answers.append(answer)
            for (one, _), body in zip(told, answer.bodies, strict=True):
                history.ids.setdefault(body, set()).add(one["MessageId"])
        for (one, _), body in zip(told, answer.bodies, strict=True):
            other = chance.choice(clients)
            if chance.random() < 0.03 or not _deleted(other, url, history, one, body, asked):
                break


def _deleted(
    client: Any, url: str, history: GroupHistory, one: Any, body: tuple[str, int], asked: float
) -> bool:
    with history.lock:
        history.said.setdefault(body, []).append(time.monotonic())
    try:
        client.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    except FAILED:
        return False
    now = time.monotonic()
    if now < asked + VISIBILITY - 0.5:
        with history.lock:
            history.gone.setdefault(body, now)
    return True


def judged(
    clients: list[Any], name: str, trouble: Callable[[GroupHistory], None], patience: float = 60
) -> GroupHistory:
    """What programs saw while there was trouble, until all was received."""
    history, stop, over = GroupHistory(), threading.Event(), threading.Event()
    given = {"FifoQueue": "true", "VisibilityTimeout": str(VISIBILITY)}
    url = clients[0].create_queue(QueueName=f"{name}.fifo", Attributes=given)["QueueUrl"]
    url = f"http://here/{url.partition('//')[2].partition('/')[2]}"
    groups = [f"g{at}" for at in range(GROUPS)]
    with ThreadPoolExecutor(4) as pool:
        try:
            senders = [
                pool.submit(send, clients, url, history, stop, groups[at::2]) for at in range(2)
            ]
            receivers = [
                pool.submit(receive, clients, url, history, over, f"r{at}") for at in range(2)
            ]
            trouble(history)
            stop.set()
            for one in senders:
                one.result()
            until = time.monotonic() + patience
            while time.monotonic() < until and history.missing:
                time.sleep(0.2)
            time.sleep(VISIBILITY + 1)
            over.set()
            for one in receivers:
                one.result()
        finally:
            stop.set()
            over.set()
    return history


def storm(folder: Path, kills: int) -> GroupHistory:
    with running(folder) as programs:
        ports, stop = [one.port for one in programs[1:]], threading.Event()
        clients = [client_of(port) for port in ports]

        def trouble(_: GroupHistory) -> None:
            with ThreadPoolExecutor(1) as pool:
                dying = pool.submit(die, ports, stop)
                try:
                    kill(programs, kills)
                finally:
                    stop.set()
                dying.result()

        return judged(clients, "storm", trouble)


def die(ports: list[int], stop: threading.Event) -> None:
    """Programs that receive, or send the first of a group again, each killed within its request.

    An id is known for `WINDOW`: on a busy machine a storm takes longer, and sends none again then.
    """
    chance, url = random.Random(0), "http://here/123456789012/storm.fifo"
    known = time.monotonic() + WINDOW / 2
    while not stop.is_set():
        port, seconds = chance.choice(ports), chance.choice((0.0, 0.005, 0.1))
        group = f"g{chance.randrange(GROUPS)}"
        words = {"MessageGroupId": group, "MessageDeduplicationId": f"{group}-0"}
        if time.monotonic() < known:
            again = {"QueueUrl": url, "MessageBody": f"{group} 0", **words}
            ask(port, "SendMessage", again, seconds)
        ask(port, "ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 1}, seconds)
        time.sleep(0.3)


def test_a_small_storm_keeps_order_and_doubles_nothing(tmp_path: Path) -> None:
    history = storm(tmp_path, 3)
    assert history.faults() == []
    assert len(history.sent) > 20
    assert any(len(one.bodies) > 1 for one in history.answers)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_large_storm_keeps_order_and_doubles_nothing(tmp_path: Path) -> None:
    history = storm(tmp_path, 60)
    assert history.faults() == []
    assert len(history.gone) > 500


# --- planted bugs ---------------------------------------------------------------------------------


async def _unordered(self: SqsQueues, record: Any) -> None:
    """A FIFO queue that is a plain fifo."""
    lease = record.number("VisibilityTimeout")
    await self.cluster.fifo(record.name, lease=lease, max_deliveries=1_000_000).create()


async def _owns(self: Deduplication, uid: str, key: str) -> int:
    """Each claim is another."""
    return await _NUMBER(self, uid, f"{key}/{uuid.uuid4()}")


async def _deletes_nothing(self: MessageReceiver, *_: Any, **__: Any) -> None:
    """The answer says that it is deleted."""


async def _loses(self: MessageSender, record: Any, one: Any) -> tuple[str, int]:
    """Says of the third of each group that it was sent."""
    return ("3", 7) if one.body.endswith(b" 3") else await _PUT(self, record, one)


def _shares(self: ByKey, *more: Any) -> None:
    """Two answers may have some of one key."""
    _INIT(self, *more)
    self._most = 2


_NUMBER, _PUT, _INIT = Deduplication.number, MessageSender._put_once, ByKey.__init__
PLANTS: dict[str, tuple[Any, str, Any]] = {
    "before": (SqsQueues, "_make", _unordered),
    "times": (Deduplication, "number", _owns),
    "after it was deleted": (MessageReceiver, "_delete", _deletes_nothing),
    "never received": (MessageSender, "_put_once", _loses),
    "in flight": (ByKey, "__init__", _shares),
}
"""By what the judge says of it: where it is, and what stands there in place of what is right."""


WIDE = "times", "never received", "in flight"


@pytest.mark.parametrize(
    "says", [pytest.param(one, marks=pytest.mark.wide) if one in WIDE else one for one in PLANTS]
)
def test_what_is_planted_is_found(
    says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*PLANTS[says])

    def until_found(history: GroupHistory) -> None:
        until = time.monotonic() + 20
        time.sleep(1.5)
        while time.monotonic() < until:
            with history.lock:
                if any(says in fault for fault in history.faults()):
                    return
            time.sleep(0.2)

    opened = Doors(str(tmp_path))
    try:
        clients = [client_of(opened.door()) for _ in range(2)]
        history = judged(clients, "planted", until_found, patience=3)
    finally:
        opened.close()
    assert any(says in fault for fault in history.faults())
