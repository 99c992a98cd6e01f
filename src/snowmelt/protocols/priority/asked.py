"""What can't be had of a client's call: said at once, with the value and the way out."""

from typing import Any, Final

from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.headers import headers_in
from snowmelt.core.keys import KEY_BYTES, fractions
from snowmelt.protocols.priority.calls import Get, Put, Settle
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.settings import (
    DELAY_LONGEST,
    HEADER_BYTES_MAX,
    REASON_BYTES_MAX,
    QueueSettings,
)

RECEIPTS_MAX: Final = 4_096
"""In one call, of all kinds."""
PIECES_MAX: Final = 65_536
"""So many intervals one call names."""
NAMED_MAX: Final = 1 << 24
"""So many positions one call names: each block of them is looked at."""
_POSITION_MAX: Final = (1 << 63) - 1

Problem = tuple[str, str] | None


def problem(call: Any, settings: QueueSettings, limits: Limits) -> Problem:
    """The error and its text; None when there is nothing wrong."""
    if type(call) is Put:
        return _put_problem(call, settings, limits)
    if type(call) is Settle:
        return _settle_problem(call, settings)
    if type(call) is Get and call.settle is not None:
        if call.settle.queue != call.queue:
            text = f"what is settled with a get is of its own queue, not of {call.settle.queue}"
            return "BadOption", text
        return _settle_problem(call.settle, settings)
    return None


def _put_problem(call: Put, settings: QueueSettings, limits: Limits) -> Problem:
    size, keyed = sum([len(part.blob) for part in call.parts]) + len(call.headers), settings.keyed
    if size > limits.put_bytes:
        return "TooLarge", f"a put holds at most {limits.put_bytes} bytes, not {size}"
    if len(call.headers) > HEADER_BYTES_MAX:
        text = f"headers take at most {HEADER_BYTES_MAX} bytes, not {len(call.headers)}"
        return "TooLarge", text
    try:
        if call.headers:
            headers_in(call.headers)  # whoever gets the items reads them
    except ValueError as error:
        return "BadOption", f"headers are to be a map from text to text or bytes: {error}"
    if not 0 <= call.delay <= DELAY_LONGEST:
        return "BadOption", f"delay is {call.delay} ns; allowed: 0 to {DELAY_LONGEST}"
    count, rows = 0, settings.rows
    for part in call.parts:
        if part.priority >= rows:
            allowed = f"allowed: 0 to {rows - 1}"
            return "BadOption", f"priority is {part.priority}; {allowed}"
        try:
            size = Bodies(part.offsets, part.blob).count
        except (ValueError, TypeError) as error:
            return "BadOption", str(error)
        count += size
        keys = KEY_BYTES * size if keyed else 0
        if len(part.keys) != keys:
            text = f"{size} elements come with {len(part.keys)} bytes of priorities, not {keys}"
            return "BadOption", text
        if settings.floats and size and not fractions(part.keys):
            text = f"queue {settings.queue} has fractions as priorities: what came are none"
            return "BadOption", text
    if not 1 <= count <= limits.put_items:
        return "BadOption", f"a put holds 1 to {limits.put_items} elements, not {count}"
    if settings.items_max and count > settings.items_max:
        text = f"queue {settings.queue} holds {settings.items_max} items at most, not {count}"
        return "BadOption", text
    return None


def _settle_problem(call: Settle, settings: QueueSettings) -> Problem:
    if len(call.reason.encode()) > REASON_BYTES_MAX:
        return "TooLarge", f"a reason takes at most {REASON_BYTES_MAX} bytes of UTF-8"
    if not 0 <= call.delay <= DELAY_LONGEST:
        return "BadOption", f"delay is {call.delay} ns; allowed: 0 to {DELAY_LONGEST}"
    receipts = (*call.done, *call.back, *call.renew)
    if len(receipts) > RECEIPTS_MAX:
        return "TooLarge", f"a call names at most {RECEIPTS_MAX} receipts, not {len(receipts)}"
    shares = [share for receipt in receipts for share in receipt.shares]
    pieces = sum([len(share.intervals) for share in shares])
    if pieces > PIECES_MAX:
        return "TooLarge", f"a call names at most {PIECES_MAX} intervals, not {pieces}"
    rows = settings.rows
    for share in shares:
        if share.priority >= rows:
            allowed = f"allowed: 0 to {rows - 1}"
            return "BadOption", f"priority is {share.priority}; {allowed}"
        for one in share.intervals:
            if one.start < 0 or one.stop > _POSITION_MAX:
                return "BadOption", f"positions are {one}; allowed: 0 to {_POSITION_MAX}"
    named = sum([share.total for share in shares])
    if named > NAMED_MAX:
        return "TooLarge", f"a call names at most {NAMED_MAX} positions, not {named}"
    return None
