"""Absurd calls about groups and staged batches: each has a clear answer, soon, and harms nobody."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from runtime.network import Serving, Stranger, cut_off, reads, serving
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, seconds
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.labels import Labels, pack
from snowmelt.protocols.queue.api.settings import QueueSettings

FAR = 2**62
ONE = Batch.of([b"x"])
SOON = 5.0
NILS = b"\x93\x80\xdd\x00\xf0\x00\x00" + b"\xc0" * 0xF00000 + b"\xc0"


def assign(group: str = "g", **more: Any) -> calls.Assign:
    usual = {"lease": 0, "reader": "r", "done": 0, "items_max": 10, "bytes_max": 1 << 20}
    return calls.Assign("q", group, **{**usual, **more})


def put(headers: bytes = b"", **more: Any) -> calls.Put:
    offsets, blob = bytes(ONE.offsets), bytes(ONE.blob)
    return calls.Put("q", "p", 1, offsets, blob, headers, **more)


def publish(
    *receipts: calls.Receipt, producer: str = "p", sequence: int = 9
) -> calls.PublishStaged:
    return calls.PublishStaged("q", producer, sequence, receipts)


def receipt(stream: str = "n1/1/1", first: int = 0, stop: int = 1) -> calls.Receipt:
    return calls.Receipt(stream, first, stop, 1)


def planned(*receipts: calls.Receipt, queue: str = "q") -> calls.Plan:
    return calls.Plan("q", "p", 9, (calls.Share(queue, receipts, 5),), 5)


ABSURD = {
    "a group without a name": (assign(""), "BadOption"),
    "a group with a NUL": (assign("a\0b"), "BadOption"),
    "a group with two slashes": (assign("a/b/c"), "BadOption"),
    "a group with a line feed at the end": (assign("a\n"), "BadOption"),
    "a group with a long name": (assign("g" * 65), "BadOption"),
    "a reader without a name": (assign(reader=""), "BadOption"),
    "a reader with a long name": (assign(reader="r" * 101), "BadOption"),
    "a negative lease": (assign(lease=-1), "BadOption"),
    "a huge lease": (assign(lease=2**64 - 1), "BadOption"),
    "done without a lease": (assign(done=1), "BadOption"),
    "a negative done": (assign(lease=1, done=-1), "BadOption"),
    "a lease that never was": (assign(lease=FAR, done=FAR), "LeaseLost"),
    "fewer than no items": (assign(items_max=-1), "BadOption"),
    "more items than there can be": (assign(items_max=2**63), "BadOption"),
    "no bytes": (assign(bytes_max=0), "BadOption"),
    "below nothing": (assign(below=(-1,)), "BadOption"),
    "where a group lies that never was": (calls.Locate("q", "h", 1, 0, FAR), "LeaseLost"),
    "from behind to before": (calls.Locate("q", "g", 1, 5, 4), "BadOption"),
    "from below zero": (calls.Locate("q", "g", 1, -5, 4), "BadOption"),
    "a huge stretch": (calls.Locate("q", "g", 1, 0, 2**63), "BadOption"),
    "a survey of none": (calls.Survey("q", 0, 0), "BadOption"),
    "a survey of too many": (calls.Survey("q", 0, FAR), "BadOption"),
    "a survey from below zero": (calls.Survey("q", -1, 1), "BadOption"),
    "a release of no name": (calls.ReleaseGroup("q", "\0"), "BadOption"),
    "groups of a queue with a slash": (calls.ListGroups("a/b"), "BadOption"),
    "a publisher without a name": (publish(producer=""), "BadOption"),
    "a negative publication": (publish(sequence=-1), "BadOption"),
    "a huge publication": (publish(sequence=2**63), "BadOption"),
    "a plan from below zero": (planned(receipt(first=-(2**63), stop=2**63)), "BadOption"),
    "a plan that can't be written down": (
        planned(*[receipt(first=0, stop=2**64 - 1)] * 3),
        "BadOption",
    ),
    "a plan of batches that end first": (planned(receipt(first=5, stop=5)), "BadOption"),
    "a plan of huge batches": (planned(receipt(first=0, stop=2**40)), "BadOption"),
    "a plan for a stream with a long name": (planned(receipt("n" * 121)), "BadOption"),
    "a plan for a queue with a slash": (planned(receipt(), queue="a/b"), "BadOption"),
    "a plan of too many batches": (planned(*[receipt()] * 65_537), "BadOption"),
    "a stream that never was": (publish(receipt("n9/ff/3")), "NotStaged"),
    "a stream that is none": (publish(receipt("\0/..")), "NotStaged"),
    "a batch below zero": (publish(receipt(first=-(2**63), stop=-1)), "NotStaged"),
    "a batch beyond everything": (publish(receipt(first=2**63, stop=2**64 - 1)), "NotStaged"),
    "a negative hold": (put(hold=Duration(-1)), "BadOption"),
    "a hold for ever": (put(hold=Duration(2**62)), "BadOption"),
    "headers that are no map": (put(b"\xc1"), "BadOption"),
    "headers that are numbers": (put(b"\x81\x01\x02"), "BadOption"),
    "labels for another number": (put(pack(Labels(keys=(b"k",) * 2))), "BadOption"),
    "labels that lie about their number": (put(b"\x93\x80\xdd\xff\xff\xff\xff\xc0"), "BadOption"),
    "a nest of labels": (put(b"\x93" + b"\x81\xa1a" * 100_000), "BadOption"),
    "labels that end early": (put(b"\x93\x80"), "BadOption"),
    "labels with no UTF-8": (put(b"\x93\x81\xa1\xff\xa0\xc0\xc0"), "BadOption"),
    "nothing, millions of times": (put(NILS), "BadOption"),
    "more labels than may be": (put(b"\x93" + bytes(17 << 20)), "BadOption"),
}


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[Serving, Stranger]]:
    """A client of a queue with three items, of which group `g` has two."""
    async with serving(folder) as node, await Stranger.dial(node.address) as stranger:
        await stranger.greet()
        opened = calls.Open("q", QueueSettings())
        while isinstance(await told(stranger, opened), Declined):  # until it has a view
            await asyncio.sleep(0.05)
        batch = Batch.of([b"a", b"b", b"c"])
        await told(stranger, calls.Put("q", "p", 1, bytes(batch.offsets), bytes(batch.blob)))
        assigned = await told(stranger, assign(items_max=2))
        assert (assigned.given, assigned.ready) == (2, 1)
        yield node, stranger


NUMBERS = count(7)


async def told(stranger: Stranger, request: Any) -> Any:
    stranger.say(Call(next(NUMBERS), request))  # under one number one question has one answer
    answer = await stranger.answer()
    assert isinstance(answer, Answer)
    return answer.body


async def lease(stranger: Stranger) -> int:
    (group,) = (await told(stranger, calls.ListGroups("q"))).groups
    return group.lease


async def state(stranger: Stranger) -> tuple[int, ...]:
    now = await told(stranger, calls.Describe("q"))
    return (now.ready, now.assigned, now.staged, now.tail, now.done, now.lost, now.producers)


async def test_an_absurd_call_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as (node, stranger):
        before = await state(stranger)
        for name, (absurd, error) in ABSURD.items():
            if not reads(absurd):
                await cut_off(node.address, absurd)
                assert await state(stranger) == before, name
                continue
            begun = time.process_time()
            answer = await told(stranger, absurd)
            assert time.process_time() - begun < SOON, name
            assert isinstance(answer, Declined), (name, answer)
            assert (answer.error, bool(answer.text)) == (error, True), name
            assert await state(stranger) == before, name
        located = await told(stranger, calls.Locate("q", "g", await lease(stranger), 0, 2))
        assert (located.lost, [(one.start, one.stop) for one in located.spans]) == (0, [(0, 2)])


async def test_everything_there_is_costs_no_more_than_what_there_is(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, stranger):
        begun = time.process_time()
        survey = await told(stranger, calls.Survey("q", 0, 1_000_000))
        assert [(one.start, one.stop) for one in survey.spans] == [(2, 3)]
        assert (await told(stranger, calls.Survey("q", FAR, 1))).spans == ()
        beyond = await told(stranger, calls.Locate("q", "g", await lease(stranger), 0, FAR))
        assert (beyond.error, "was given 2 items" in beyond.text) == ("LeaseLost", True)
        everything = assign("h", items_max=1 << 40, bytes_max=1 << 40, below=(FAR,))
        assert (await told(stranger, everything)).given == 1
        assert time.process_time() - begun < SOON


async def test_a_million_receipts_are_refused_while_others_are_served(tmp_path: Path) -> None:
    async with (
        served(tmp_path) as (node, stranger),
        await Stranger.dial(node.address) as other,
    ):
        await other.greet("c-other")
        begun = time.process_time()
        stranger.say(Call(7, publish(*[receipt()] * 10**6)))
        await other.is_served()
        assert (await stranger.goodbye()).error == "MessageError"
        other.say(Call(7, publish(*[receipt()] * 100_000)))
        answer = (await other.answer()).body
        assert answer.text == "receipts is 100000; allowed: 0 to 65536"
        assert time.process_time() - begun < 2 * SOON
        assert (await told(other, calls.Describe("q"))).tail == 3


async def test_a_staged_batch_can_be_published_by_its_receipt_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, stranger):
        staged = await told(stranger, put(hold=seconds(100)))
        wrong = msgspec.structs.replace(staged, stop=staged.stop + 1)
        assert (await told(stranger, publish(wrong))).error == "NotStaged"
        assert (await told(stranger, publish(staged, staged))).error == "NotStaged"
        done = await told(stranger, publish(staged))
        assert (done.start, done.stop, done.repeated) == (3, 4, False)
