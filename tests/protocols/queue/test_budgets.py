"""Whatever one client sends, an answer fits a frame, and everybody's items can be got."""

import time
import tracemalloc

import pytest
from master_bench import KEEPERS, OTHER, THIRD, Bench
from nodes_bench import Nodes

from snowmelt.core.instant import Duration, Instant
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo import calls
from snowmelt.protocols.fifo.labels import Labels, checked, pack
from snowmelt.protocols.fifo.limits import Limits
from snowmelt.protocols.fifo.messages import Copy, Pulled
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.wire.codec import encode
from snowmelt.wire.framing import FRAME_BYTES_MAX

FITS = 1 << 20
LABELS = pack(Labels(headers=({"name": "x" * 60_000},) * 200))  # 12 MB for 200 items
PLACE = calls.Place(NodeId("n1"), Address("127.0.0.1", 4411))


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


def test_the_largest_put_there_is_can_be_copied_and_handed_out() -> None:
    nodes = Nodes(2)
    nodes.open(replicas=2)
    told = nodes.put([bytes(64 << 20)], 1, headers=b"\x81\xa1a\xda\xfd\xe8" + b"x" * 65_000)
    assert isinstance(told, calls.PutDone), told
    assert all(
        len(encode(message)) < FRAME_BYTES_MAX
        for _, _, message in nodes.sent
        if isinstance(message, Copy | Pulled)
    )
    leased = nodes.get(1, 1)
    assert len(encode(leased)) < FRAME_BYTES_MAX
    for span in leased.spans:
        told = nodes.ask(calls.Fetch("q", span, 1 << 40), span.keepers[0].node)
        assert sum(part.count for part in told.parts) == 1
        assert len(encode(told)) < FRAME_BYTES_MAX


def test_bodies_and_headers_that_fit_no_frame_together_are_refused() -> None:
    nodes = Nodes(1)
    nodes.open()
    told = nodes.put([bytes(310 << 10)] * 200, 1, headers=LABELS)
    assert isinstance(told, Declined)
    assert told.error == "TooLarge"


def test_what_failed_with_long_reasons_is_leased_as_far_as_they_can_be_told() -> None:
    limits = Limits(spans_bytes=1 << 20)
    bench = Bench(Queue("q", QueueSettings(), limits))
    bench.desk.limits = limits
    bench.offer(0, 4_000, keepers=KEEPERS[1:])
    bench.flush()
    queue = bench.queue
    lease = queue.lease(OperationId(NodeId("c-9"), 1), 4_000, 1 << 40, Instant(0))
    assert lease is not None
    for at in range(4_000):
        queue.give_back(lease, [Interval(at, at + 1)], 0, f"{at:05}" * 200)
    answer = bench.ask(bench.master.get, calls.Get("q", 100_000, 1 << 40, Duration(0)))
    assert len(encode(answer)) < 2 << 20
    (held,) = queue.leases
    told = sum(span.stop - span.start for span in answer.spans)
    assert held.left.total == told > 100, "what is held and was not told of comes back much later"


def test_a_peek_tells_no_more_than_an_answer_holds() -> None:
    bench = Bench()
    for at in range(0, 400, 2):  # no two adjacent: a span each
        bench.offer(at, at + 1, stream=OTHER if at % 4 else THIRD, keepers=KEEPERS[1:])
    bench.flush()
    whole = bench.ask(bench.master.peek, calls.Peek("q", 100_000, 1 << 40))
    assert len(whole.spans) == 200
    bench.desk.limits = Limits(spans_bytes=20 * whole.spans[0].weight)
    seen = bench.ask(bench.master.peek, calls.Peek("q", 100_000, 1 << 40))
    assert [span.start for span in seen.spans] == list(range(20))


def test_labels_that_are_refused_take_little_memory_and_time() -> None:
    """Fifteen million empty maps are a gigabyte when they are unpacked."""
    count = 15 << 20
    packed = b"\x93\x80\xc0\xdd" + count.to_bytes(4) + b"\x80" * count
    tracemalloc.start()
    begun = time.process_time()
    try:
        with pytest.raises(ValueError, match="another number of items than 200"):
            checked(packed, 200)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20, f"{peak} bytes"
    assert time.process_time() - begun < 2.0


def test_the_labels_of_one_item_have_a_bound() -> None:
    with pytest.raises(ValueError, match="for one item; the limit is 65536"):
        checked(pack(Labels(headers=({"a": "x" * 70_000}, None))), 2)
    with pytest.raises(ValueError, match="for one item; the limit is 65536"):
        checked(pack(Labels(keys=(b"x" * 70_000, None))), 2)
    with pytest.raises(ValueError, match="for one item; the limit is 65536"):
        checked(pack(Labels({"a": "x" * 70_000})), 2)
    checked(pack(Labels(keys=(b"x" * 65_536, None))), 2)
