"""What can't be had of a client's call: said at once, with the value and the way out."""

from collections.abc import Iterable
from typing import Any

from snowmelt.core.batch import Batch as Bodies
from snowmelt.protocols.priority.calls import Put, Receipt, Settle, Show
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.settings import (
    DELAY_LONGEST,
    HEADER_BYTES_MAX,
    HOLD_LONGEST,
    REASON_BYTES_MAX,
    QueueSettings,
)

Problem = tuple[str, str] | None


def problem(call: Any, settings: QueueSettings, limits: Limits) -> Problem:
    """The error and its text; None when there is nothing wrong."""
    if isinstance(call, Put):
        return _put_problem(call, settings, limits)
    if isinstance(call, Settle):
        return _settle_problem(call, settings)
    if isinstance(call, Show):
        return _receipts_problem((call.receipt,), settings)
    return None


def _put_problem(call: Put, settings: QueueSettings, limits: Limits) -> Problem:
    size = sum([len(part.blob) for part in call.parts]) + len(call.headers)
    if size > limits.put_bytes:
        return "TooLarge", f"a put holds at most {limits.put_bytes} bytes, not {size}"
    if len(call.headers) > HEADER_BYTES_MAX:
        text = f"headers take at most {HEADER_BYTES_MAX} bytes, not {len(call.headers)}"
        return "TooLarge", text
    if not 0 <= call.delay <= DELAY_LONGEST:
        return "BadOption", f"delay is {call.delay} ns; allowed: 0 to {DELAY_LONGEST}"
    if not 0 <= call.hold <= HOLD_LONGEST:
        return "BadOption", f"hold is {call.hold} ns; allowed: 0 to {HOLD_LONGEST}"
    count = 0
    for part in call.parts:
        if part.priority >= settings.priorities:
            allowed = f"allowed: 0 to {settings.priorities - 1}"
            return "BadOption", f"priority is {part.priority}; {allowed}"
        try:
            count += len(Bodies(part.offsets, part.blob))
        except (ValueError, TypeError) as error:
            return "BadOption", str(error)
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
    receipts = (*call.done, *call.back, *call.renew, *call.keep, *call.publish)
    return _receipts_problem(receipts, settings)


def _receipts_problem(receipts: Iterable[Receipt], settings: QueueSettings) -> Problem:
    for receipt in receipts:
        for share in receipt.shares:
            if share.priority >= settings.priorities:
                allowed = f"allowed: 0 to {settings.priorities - 1}"
                return "BadOption", f"priority is {share.priority}; {allowed}"
    return None
