"""What another node of the cluster can't have said: it is not heard, and nothing is lost."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from priority_bench import _DECODE, _ENCODE, Nodes, bodies, receipt

from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.instant import Duration
from snowmelt.core.interval import Interval
from snowmelt.core.keys import packed
from snowmelt.core.names import NodeId
from snowmelt.core.node import Received
from snowmelt.core.spans import spans
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.batches import Batch, Grant, GrantedRun, Run, Share, Some
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.messages import Follow, Mark, Several
from snowmelt.protocols.priority.settings import QueueSettings, State
from snowmelt.protocols.seap.steps import Assign, Begin, Chosen, Heard, Least, Release, Sample
from snowmelt.protocols.select.elements import Element
from snowmelt.protocols.select.steps import Drawn

SOON = 10.0
"""Seconds, also on a busy machine; whoever looks at each position takes years."""
FAR = (1 << 63) - 1
ALL = (Share(0, (Interval(0, FAR),)),)
ELSEWHERE = (Share(7, (Interval(1, 2),)),)
"""Of a row that there is not."""


def elements(message: Any, **other: Any) -> Any:
    return replace(message, elements=replace(message.elements, **other))


def want(message: Any, **other: Any) -> Any:
    return replace(message, wants=(replace(message.wants[0], **other), *message.wants[1:]))


def given(message: Any, **other: Any) -> Any:
    return replace(message, given=(replace(message.given[0], **other), *message.given[1:]))


def piece(message: Any, **other: Any) -> Any:
    return given(message, pieces=(replace(message.given[0].pieces[0], **other),))


def batch(message: Any, **other: Any) -> Any:
    return replace(message, batch=Batch(**other))


def granted(*runs: GrantedRun) -> Callable[[Any], Any]:
    return lambda one: replace(one, grant=Grant(runs, phase=one.grant.phase))


def step(what: Any) -> Callable[[Any], Any]:
    """Instead of what a phase begins with."""
    return lambda one: replace(one, step=what) if isinstance(one.step, Begin) else one


def answer(what: Any) -> Callable[[Any], Any]:
    return lambda one: replace(one, answer=what)


ROW = (Element(2, 2), Element(1, 1))
BAD: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a put of a row there is not": ("Store", lambda one: elements(one, shares=ELSEWHERE)),
    "a put everywhere": ("Store", lambda one: elements(one, shares=ALL)),
    "a put without keys": ("Store", lambda one: elements(one, keys=b"")),
    "a put of half a key": ("Store", lambda one: elements(one, keys=one.elements.keys[:-1])),
    "a put of too few bodies": ("Store", lambda one: elements(one, offsets=bytes(4))),
    "a put whose bodies go back": (
        "Store",
        lambda one: elements(one, offsets=one.elements.offsets[::-1]),
    ),
    "a put of nobody": ("Store", lambda one: elements(one, origins=())),
    "what came in nowhere": ("Stored", lambda one: replace(one, void=ELSEWHERE)),
    "all there is, wanted": ("Take", lambda one: want(one, shares=ALL)),
    "a row there is not, wanted": ("Take", lambda one: want(one, shares=ELSEWHERE)),
    "an answer to what nobody wanted": ("Taken", lambda one: given(one, at=999)),
    "an answer twice": ("Taken", lambda one: replace(one, given=one.given * 2)),
    "a piece without its keys": ("Taken", lambda one: piece(one, keys=b"")),
    "a piece of no bodies": ("Taken", lambda one: piece(one, offsets=b"")),
    "a piece beyond its bodies": ("Taken", lambda one: piece(one, blob=b"")),
    "stretches of more than there are": (
        "Taken",
        lambda one: piece(one, spans=spans([1, FAR - 2], [2, FAR])),
    ),
    "stretches that go back": ("Taken", lambda one: piece(one, spans=spans([9], [2]))),
    "half a stretch": ("Taken", lambda one: piece(one, spans=bytes(8))),
    "stretches that begin elsewhere": (
        "Taken",
        lambda one: piece(one, spans=spans([7], [7 + one.given[0].pieces[0].count])),
    ),
    "stretches of which no time is told": (
        "Taken",
        lambda one: piece(
            one,
            spans=spans(
                [one.given[0].pieces[0].start],
                [one.given[0].pieces[0].start + one.given[0].pieces[0].count],
            ),
        ),
    ),
    "a batch of rows there are not": (
        "Climb",
        lambda one: batch(one, runs=(Run((Some(9, 1),), 1),)),
    ),
    "what is back where nothing is": ("Climb", lambda one: batch(one, back=ELSEWHERE)),
    "a grant of no runs": ("Granted", granted()),
    "a grant of all ranks": ("Granted", granted(GrantedRun(1, (), 1, ALL))),
    "a grant of more than was put": ("Granted", granted(GrantedRun(1, ALL, 1, ()))),
    "a step of no phase": ("Asked", step(Release())),
    "ranks before anything is counted": ("Asked", step(Assign(7, None))),
    "a phase of no number": ("Asked", step(Begin(FAR, 1))),
    "an answer to another step": ("Answered", answer(Heard())),
    "a count of what was not asked": ("Answered", answer(Chosen(1 << 40))),
    "more than there can be": ("Answered", answer(Drawn(FAR, FAR, FAR))),
    "a sample of no draw": ("Answered", answer(Sample(ROW))),
    "the least in no order": ("Answered", answer(Least(1, 2, 64, ROW))),
    "the least of many are none": ("Answered", answer(Least(1, 1 << 30, 64, ()))),
    "ranks of all there is": ("Ranked", lambda one: replace(one, shares=ALL)),
    "ranks of a row there is not": ("Ranked", lambda one: replace(one, shares=ELSEWHERE)),
    "all ranks, sought": ("Seek", lambda one: replace(one, ranks=Interval(0, FAR))),
    "all there is, found": ("Sought", lambda one: replace(one, shares=ALL)),
    "a row there is not, found": ("Sought", lambda one: replace(one, shares=ELSEWHERE)),
    "keys of nothing kept": ("Tell", lambda one: kept(one, keys=packed([1, 2, 3]))),
    "all there is, kept": ("Tell", lambda one: kept(one, stored=ALL)),
    "a row there is not, kept": ("Tell", lambda one: kept(one, gone=ELSEWHERE)),
    "a lease beyond all times": ("Take", lambda one: replace(one, lease=Duration(1 << 63))),
    "a lease that is over before": ("Take", lambda one: replace(one, lease=Duration(-1))),
    "all there is, leased": ("Follow", lambda one: marked(one, shares=ALL)),
    "settings that can't be had": ("Anew", lambda one: made(one, priorities=-1)),
    "fractions that have a number": ("Anew", lambda one: made(one, priorities=9, floats=True)),
}


def kept(message: Any, **other: Any) -> Any:
    return replace(message, kept=tuple([replace(one, **other) for one in message.kept]))


def marked(message: Any, **other: Any) -> Any:
    return replace(message, marks=tuple([replace(one, **other) for one in message.marks]))


def made(message: Any, **other: Any) -> Any:
    return replace(message, queues=(QueueSettings(queue="jobs", **other),))


class Lying(Nodes):
    """What is said of a kind is said wrongly first, and then as it is."""

    kind = ""
    wrong: Callable[[Any], Any]
    said = 0

    def _arriving(self, source: Any, target: Any, message: Any) -> list[Any]:
        several = message.messages if isinstance(message, Several) else (message,)
        for one in several:
            if type(one).__name__ != self.kind:
                continue
            self.said += 1
            try:
                word = _DECODE(_ENCODE(self.wrong(one)))
            except (msgspec.MsgspecError, ValueError):
                continue  # it is refused where it is declared
            self._events.append((target, Received(source, word)))
        return super()._arriving(source, target, message)


def keyed(*numbers: int) -> calls.Part:
    rows = Bodies.of([b"%d" % number for number in numbers])
    return calls.Part(0, bytes(rows.offsets), bytes(rows.blob), packed(numbers))


@pytest.mark.parametrize("name", BAD)
def test_what_no_node_can_have_said_is_not_heard_and_nothing_is_lost(name: str) -> None:
    nodes = Lying(3, Limits(block=16, deal=0, least=4, sample=8))
    nodes.open("n1", priorities=0, replicas=2)
    put: list[int] = []
    nodes.kind, nodes.wrong = BAD[name]
    began = time.process_time()
    for at in range(6):
        door = f"n{at % 3 + 1}"
        numbers = range(100 * at, 100 * at + 100)
        done = nodes.call(door, calls.Put("jobs", nodes.via(door), (keyed(*numbers),)))
        assert isinstance(done, calls.PutDone), done
        put += numbers
        leased = nodes.get(door, 3)
        assert bodies(leased) == [b"%d" % number for number in sorted(put)[:3]]
        assert nodes.settle(door, done=(receipt(leased),)) == calls.Settled()
        put = sorted(put)[3:]
        if at % 2:
            nodes.view(*nodes.members)
            nodes.pass_time(1)
    nodes.kind = ""
    assert bodies(nodes.get("n1", 1_000)) == [b"%d" % number for number in put]
    assert nodes.said, "nothing of this kind was said"
    assert time.process_time() - began < SOON


@pytest.mark.parametrize("priorities", [0, 4])
def test_whoever_joins_is_told_of_billions_that_are_gone_in_one_word(priorities: int) -> None:
    nodes = Nodes(4)
    nodes.view("n1", "n2", "n3")
    nodes.open("n1", priorities=priorities, replicas=2)
    gone = Mark((Share(0, (Interval(2 << 40, (2 << 40) + 5_000_000_000),)),), 0, 0, State.GONE)
    era = nodes.sent[-1][2].era
    for source, target in (("n1", "n2"), ("n2", "n3"), ("n3", "n1")):
        nodes.give(target, Received(NodeId(source), Follow(era, 10**6, "jobs", marks=(gone,))))
    nodes.sent.clear()
    began = time.process_time()
    nodes.view("n1", "n2", "n3", "n4")
    nodes.pass_time(1)
    assert time.process_time() - began < SOON
    taught = [
        mark for _, target, one in nodes.sent_of("Follow") if target == "n4" for mark in one.marks
    ]
    assert gone.shares in [mark.shares for mark in taught]
