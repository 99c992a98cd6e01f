"""Whatever one client sends, an answer fits a frame, and everybody's items can be got."""

import pytest
from cluster_bench import ClusterBench
from node_bench import NodeBench
from nodes_bench import Nodes

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.labels import Labels, pack
from snowmelt.protocols.queue.limits import QueueLimits
from snowmelt.protocols.queue.replication import follower_progress
from snowmelt.wire.codec import encode
from snowmelt.wire.framing import FRAME_BYTES_MAX

FITS = 1 << 20
LABELS = pack(Labels(headers=({"name": "x" * 60_000},) * 200))  # 12 MB for 200 items
PLACE = calls.NodeAddress(NodeId("n1"), Address("127.0.0.1", 4411))


def labelled(nodes: Nodes, puts: int) -> None:
    for at in range(puts):
        told = nodes.put([b"x"] * 200, at, headers=LABELS)
        assert isinstance(told, calls.PutDone), told


def test_what_a_client_says_of_a_span_is_not_told_back_with_each_part() -> None:
    nodes = Nodes(1)
    nodes.open()
    for at in range(64):  # each put becomes a part of its own
        nodes.put([b"x"], at, headers=b"\x81\xa1a" + b"\xa2%02d" % at)
    (span,) = nodes.ask(calls.Survey("q", 0, 100)).spans
    told = nodes.ask(calls.Fetch("q", _with(span, reason="r" * 1_000, failures=3), FITS))
    assert sum(part.count for part in told.parts) == 64
    assert len(encode(told)) < 10_000


def _with(span: calls.Span, **changes: object) -> calls.Span:
    values = {name: getattr(span, name) for name in calls.Span.__struct_fields__}
    return calls.Span(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "lie",
    [
        {"reason": "r" * 1_001},
        {"keepers": (PLACE,) * 8},
        {"failures": -1},
        {"failures": 1 << 63},
    ],
    ids=str,
)
def test_a_span_beyond_its_bounds_is_refused(lie: dict[str, object]) -> None:
    nodes = Nodes(1)
    nodes.open()
    nodes.put([b"x"], 1)
    (span,) = nodes.ask(calls.Survey("q", 0, 100)).spans
    told = nodes.ask(calls.Fetch("q", _with(span, **lie), FITS))
    assert isinstance(told, Declined)
    assert told.error == "BadOption"


def test_items_with_large_labels_are_handed_out_a_few_at_a_time_and_their_neighbours_too() -> None:
    nodes = Nodes(1)
    nodes.open(deliveries_max=1)
    labelled(nodes, 7)
    nodes.put([b"innocent"] * 20, 100)
    seen = 0
    while seen < 7 * 200 + 20:
        leased = nodes.get(10_000, 16 << 20)
        assert isinstance(leased, calls.Leased), leased
        assert len(encode(leased)) < FRAME_BYTES_MAX
        parts = list(leased.parts)
        for span in leased.spans:
            told = nodes.ask(calls.Fetch("q", span, 16 << 20))
            assert len(encode(told)) < FRAME_BYTES_MAX
            parts += told.parts
        assert parts
        count = sum(part.count for part in parts)
        nodes.settle(leased.token, Interval(seen, seen + count))
        seen += count
    assert nodes.status().dead == 0


def test_a_fetch_of_items_with_large_labels_fits_a_frame() -> None:
    nodes = Nodes(1)
    nodes.open()
    labelled(nodes, 7)
    spans = nodes.ask(calls.Survey("q", 0, 10_000)).spans
    told = nodes.ask(calls.Fetch("q", spans[0], 1 << 40))
    assert told.parts
    assert len(encode(told)) < FRAME_BYTES_MAX


def test_headers_count_in_the_bounds_of_a_queue() -> None:
    nodes = Nodes(1)
    nodes.open(bytes_max=30 << 20)
    labelled(nodes, 2)
    assert nodes.status().bytes > 20 << 20
    told = nodes.put([b"x"] * 200, 9, headers=LABELS)
    assert isinstance(told, Declined)
    assert told.error == "Full"


LARGEST = Batch.of([bytes(64 << 20)])
LONG = b"\x81\xa1a\xda\xfd\xe8" + b"x" * 65_000


def fit_frames(nodes: Nodes) -> None:
    assert all(len(encode(message)) < FRAME_BYTES_MAX for _, _, message in nodes.sent)
    nodes.sent.clear()


def test_the_largest_put_there_is_can_be_copied_and_handed_out() -> None:
    nodes = Nodes(2)
    nodes.open(replicas=2)
    told = nodes.put([bytes(64 << 20)], 1, headers=LONG)
    assert isinstance(told, calls.PutDone), told
    fit_frames(nodes)
    leased = nodes.get(1, 1)
    assert sum(part.count for part in leased.parts) == 1
    assert len(encode(leased)) < FRAME_BYTES_MAX


@pytest.mark.parametrize("hold", [0, 9])
def test_the_largest_puts_that_come_while_a_disk_is_busy_are_copied_in_several_steps(
    hold: int,
) -> None:
    bench = ClusterBench(3)
    leader = bench.open(replicas=3)
    bench.run(1)
    bench.slots[NodeId(leader)].held = True
    bench.sent.clear()
    body, hold = (bytes(LARGEST.offsets), bytes(LARGEST.blob), LONG), seconds(hold)
    puts = [calls.Put("q", "p", at, *body, hold=hold) for at in (1, 2, 3)]
    puts.append(calls.Put("q", "p", 4, bytes(8), b"", hold=hold))
    asked = [bench.call(leader, put) for put in puts]
    bench.run(0.1)
    bench.slots[NodeId(leader)].held = False
    bench.run(1)
    told = [bench.answers[one] for one in asked]
    first = [one.first if hold else one.start for one in told]
    assert [one - first[0] for one in first] == [0, 1, 2, 3]
    assert all(len(encode(message)) < FRAME_BYTES_MAX for _, _, message in bench.sent)
    assert not bench.messages("SnapshotChunk")


def test_what_is_larger_than_its_neighbours_is_handed_out_though_it_fits_no_answer() -> None:
    """By the mean of their puts both would fit; what does not goes back, and is no failure."""
    nodes = Nodes(1)
    nodes.open()
    nodes.put([b"x", bytes(63 << 20)], 1)
    nodes.put([bytes(63 << 20), b"x"], 2)
    nodes.settle(nodes.get(1).token, Interval(0, 1))
    assert len(encode(nodes.ask(calls.Peek("q", 9, 1 << 40)))) < FRAME_BYTES_MAX
    for at, count in ((1, 1), (2, 2)):
        leased = nodes.get(2, 1 << 30)
        assert len(encode(leased)) < FRAME_BYTES_MAX
        told = [(part.start, part.count, part.failures) for part in leased.parts]
        assert told == [(at, count, 0)]
        assert nodes.settle(leased.token, Interval(at, at + count)) == calls.Settled(0)


def test_what_many_calls_changed_at_once_is_copied_though_it_fits_no_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them is small, and has hundreds of items fail for one long reason."""
    monkeypatch.setattr(follower_progress, "STEP_MAX", 1 << 20)
    bench = ClusterBench(3)
    leader = bench.open(replicas=2, durable_copies=2)
    bench.run(1)
    offsets = b"".join(at.to_bytes(4, "little") for at in [0] * 8_001)
    assert bench.ask(leader, calls.Put("q", "p", 1, offsets, b"")) is not None
    token = bench.get(leader, 10_000).token
    bench.slots[NodeId(leader)].held = True
    bench.put(leader, 10, within=0.1)
    asked = []
    for at in range(0, 8_000, 1_000):
        some = tuple(Interval(one, one + 1) for one in range(at, at + 1_000, 2))
        settle = calls.Settle("q", token, back=some, reason="r" * 1_000)
        asked.append(bench.call(leader, settle))
    bench.slots[NodeId(leader)].held = False
    bench.sent.clear()
    bench.run(3)
    assert all(isinstance(bench.answers[one], calls.Settled) for one in asked)
    assert max(len(encode(message)) for _, _, message in bench.sent) < 3 << 20
    assert len(bench.messages("SnapshotChunk")) > 3


def test_bodies_and_headers_that_fit_no_frame_together_are_refused() -> None:
    nodes = Nodes(1)
    nodes.open()
    told = nodes.put([bytes(310 << 10)] * 200, 1, headers=LABELS)
    assert isinstance(told, Declined)
    assert told.error == "TooLarge"


def failed(count: int, limits: QueueLimits) -> NodeBench:
    """So many items, of which each failed with another long reason."""
    bench = NodeBench(limits)
    bench.open()
    bench.put(items=count)
    token = bench.answer(calls.Get("q", count, 1 << 40, Duration(0))).token
    for at in range(count):
        some = (Interval(at, at + 1),)
        bench.answer(calls.Settle("q", token, back=some, reason=f"{at:05}" * 200))
    return bench


def test_what_failed_with_long_reasons_is_leased_as_far_as_they_can_be_told() -> None:
    bench = failed(4_000, QueueLimits(spans_bytes=1 << 20))
    answer = bench.answer(calls.Get("q", 100_000, 1 << 40, Duration(0)))
    assert len(encode(answer)) < 2 << 20
    told = sum(part.count for part in answer.parts)
    left = bench.state.leases[answer.token].left.total
    assert left == told > 100, "what is held and was not told of comes back much later"


def test_a_peek_tells_no_more_than_an_answer_holds() -> None:
    bench = failed(400, QueueLimits(spans_bytes=20 << 10))
    seen = bench.answer(calls.Peek("q", 100_000, 1 << 40))
    assert 10 <= sum(part.count for part in seen.parts) <= 20
    assert len(encode(seen)) < 30 << 10
