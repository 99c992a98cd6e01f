"""What a get by keys brings from many stretches, as one part.

So an answer costs little more for a thousand stretches than for one: here, on its way, and with who
asked. Items go together that differ in nothing but bodies, keys, positions and when they were put.
They lie in the order of their positions: whoever reads them orders them by their keys.
"""

from array import array
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from operator import sub
from struct import Struct
from typing import Final

from snowmelt.core import times
from snowmelt.core.batch import OFFSET_BYTES
from snowmelt.core.interval import Interval
from snowmelt.core.keys import KEY_BYTES
from snowmelt.core.spans import SPAN_BYTES, spans
from snowmelt.protocols.queue.api.calls import ItemRun
from snowmelt.protocols.queue.api.labels import are_labels
from snowmelt.protocols.queue.state.batches import StoredBatch
from snowmelt.protocols.queue.state.segments import Segment, lacks
from snowmelt.protocols.queue.state.state import QueueState

_EACH: Final = OFFSET_BYTES + KEY_BYTES
_STRETCH: Final = SPAN_BYTES + times.RUN.size


def gathered(
    state: QueueState,
    positions: Sequence[Interval],
    segment_of: Callable[[StoredBatch], Segment | None],
    bytes_max: int,
) -> ItemRun | None:
    """All of these; None where not all are at hand, or not alike, or they are too much for it."""
    if state.failures.starts and any(map(state.failures.common, positions)):
        return None
    sizes: list[int] = []
    blobs: list[bytes] = []
    put: list[int] = []
    headers: bytes | None = None
    for interval in positions:
        for batch, first, stop in state.batches.over(interval):
            segment = segment_of(batch)
            if segment is None:
                return None
            at, count = first + batch.shift - segment.first, stop - first
            if segment.headers != headers:
                if headers is not None or are_labels(segment.headers):
                    return None
                headers = segment.headers
            if segment.left and lacks(segment, at + segment.first, at + segment.first + count):
                return None
            edges = _edges(count + 1)(segment.offsets, at * OFFSET_BYTES)
            sizes += map(sub, edges[1:], edges)
            blobs.append(segment.blob[edges[0] : edges[-1]])
            put += (count, segment.put_at)
            bytes_max -= edges[-1] - edges[0] + count * _EACH + _STRETCH
            if bytes_max < 0:
                return None
    keys = b"".join([state.keys.row(one) for one in positions])
    starts, stops = [one.start for one in positions], [one.stop for one in positions]
    return ItemRun(
        starts[0],
        array("i", accumulate(sizes, initial=0)).tobytes(),
        b"".join(blobs),
        headers or b"",
        times=times.pairs(put),
        keys=keys,
        spans=spans(starts, stops) if len(starts) > 1 else b"",
    )


@cache
def _edges(count: int) -> Callable[[bytes, int], tuple[int, ...]]:
    """Reads so many offsets, one behind the other."""
    return Struct(f"<{count}i").unpack_from
