"""Messages in: one, or up to ten at once, each with an outcome of its own."""

import asyncio
import hashlib
import re
import uuid
from collections import Counter
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

import msgspec

from snowmelt.aio import Fifo
from snowmelt.core.errors import SequenceTooOld, SnowmeltError
from snowmelt_doors.sqs.attributes import QueueRecord
from snowmelt_doors.sqs.deduplication import message_id
from snowmelt_doors.sqs.errors import SqsError, bad_parameter, bad_value, missing, told
from snowmelt_doors.sqs.messages import (
    DELAY_MAX,
    MESSAGE_BYTES_MAX,
    Attribute,
    Envelope,
    checked_attributes,
    checked_body,
    checked_label,
    checked_system,
    digest_of,
    digest_of_attributes,
    packed,
    size_of,
)
from snowmelt_doors.sqs.queues import Params, SqsCaller, SqsQueues, Told

ENTRIES_MAX: Final = 10
PUT_SECONDS: Final = 20.0
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")


class CheckedMessage(msgspec.Struct, frozen=True):
    """A message that was looked at, and may be put."""

    body: bytes
    attributes: dict[str, Attribute]
    system: dict[str, str]
    delay: float

    @property
    def size(self) -> int:
        return size_of(self.body, self.attributes)


class MessageSender:
    def __init__(self, queues: SqsQueues) -> None:
        self._queues = queues

    async def send_message(self, caller: SqsCaller, asked: Params) -> Told:
        record = await self._queues.record(asked.get("QueueUrl"))
        one = _read(record, caller, asked)
        _check_size(one.size, record)
        return await self._put(record, one)

    async def send_message_batch(self, caller: SqsCaller, asked: Params) -> Told:
        record = await self._queues.record(asked.get("QueueUrl"))
        entries = checked_entries(asked.get("Entries"), "SendMessageBatchRequestEntry")
        ready: dict[str, CheckedMessage] = {}
        failed: list[Told] = []
        for one in entries:
            try:
                ready[one["Id"]] = _read(record, caller, one)
            except SqsError as error:
                if error.code == "MissingParameter" or record.is_fifo:
                    raise
                failed.append(failure(one["Id"], error))
        size = sum(one.size for one in ready.values())
        if size > MESSAGE_BYTES_MAX:
            raise SqsError(
                "BatchRequestTooLong",
                f"Batch requests cannot be longer than {MESSAGE_BYTES_MAX} bytes. "
                f"You have sent {size} bytes.",
            )
        for name, each in list(ready.items()):
            try:
                _check_size(each.size, record)
            except SqsError as error:
                del ready[name]
                failed.append(failure(name, error))
        if record.is_fifo:  # one behind the other, as they stand there
            outcomes = [await _outcome(self._put(record, each)) for each in ready.values()]
        else:
            outcomes = await asyncio.gather(
                *[_outcome(self._put(record, each)) for each in ready.values()]
            )
        done: list[Told] = []
        for name, outcome in zip(ready, outcomes, strict=True):
            if isinstance(outcome, SqsError):
                failed.append(failure(name, outcome))
            else:
                done.append({"Id": name, **outcome})
        return {"Successful": done} | ({"Failed": failed} if failed else {})

    async def _put(self, record: QueueRecord, one: CheckedMessage) -> Told:
        sequence = -1
        if record.is_fifo:
            name, sequence = await self._put_once(record, one)
        else:
            name = str(uuid.uuid4())
            group = one.system.get("MessageGroupId")
            if group is not None and not record.fair:
                await self._queues.make_fair(record)
            body, headers = packed(one.body, Envelope(name, one.attributes, one.system))
            put = partial(self._queues.fifo(record.name).put, timeout=PUT_SECONDS, key=group)
            await put(body, headers=headers, delay=one.delay)
        found: Told = {"MessageId": name, "MD5OfMessageBody": digest_of(one.body)}
        if sequence >= 0:
            found["SequenceNumber"] = f"{sequence:020}"
        if one.attributes:
            found["MD5OfMessageAttributes"] = digest_of_attributes(one.attributes)
        trace = one.system.get("AWSTraceHeader")
        if trace is not None:
            some = {"AWSTraceHeader": Attribute("String", trace.encode())}
            found["MD5OfMessageSystemAttributes"] = digest_of_attributes(some)
        return found

    async def _put_once(self, record: QueueRecord, one: CheckedMessage) -> tuple[str, int]:
        """Into a FIFO queue: the message's id, and its position (`deduplication.py`)."""
        group, key = one.system["MessageGroupId"], one.system["MessageDeduplicationId"]
        if record.attributes.get("DeduplicationScope") == "messageGroup":
            key = f"{group} {key}"
        number = await self._queues.deduplication.number(record.uid, key)
        name = message_id(record.uid, number)
        body, headers = packed(one.body, Envelope(name, one.attributes, one.system))
        queue = partial(self._queues.fifo, record.name)
        put = partial(
            Fifo.put, body=body, headers=headers, delay=one.delay, timeout=PUT_SECONDS, key=group
        )
        try:
            position = await put(queue(f"sqs.{record.uid}"), sequence=number)
        except SequenceTooOld:  # thousands of numbers were left out: nothing is known of this one
            position = await put(queue())
        return name, int(position)


async def _outcome(put: Coroutine[Any, Any, Told]) -> Told | SqsError:
    """What came of one of several."""
    try:
        return await put
    except SqsError as error:
        return error
    except SnowmeltError as error:
        return told(error)


def _read(record: QueueRecord, caller: SqsCaller, asked: Params) -> CheckedMessage:
    body = checked_body(asked.get("MessageBody"))
    attributes = checked_attributes(asked.get("MessageAttributes"))
    system = checked_system(asked.get("MessageSystemAttributes")) | {"SenderId": caller.name}
    for name in ("MessageGroupId", "MessageDeduplicationId"):
        if asked.get(name):
            system[name] = checked_label(name, asked[name])
    if record.is_fifo:
        _check_fifo(record, asked, system, body)
    return CheckedMessage(body, attributes, system, _delay(record, asked.get("DelaySeconds")))


def _check_fifo(record: QueueRecord, asked: Params, system: dict[str, str], body: bytes) -> None:
    """What a FIFO queue wants: a group, and an id of its own or one made of the body."""
    if "MessageGroupId" not in system:
        raise missing("MessageGroupId")
    delay = asked.get("DelaySeconds")
    if delay is not None and str(delay) != "0":
        why = "The request include parameter that is not valid for this queue type."
        raise bad_value("DelaySeconds", delay, why)
    if "MessageDeduplicationId" not in system:
        if not record.flag("ContentBasedDeduplication"):
            raise bad_parameter(
                "The queue should either have ContentBasedDeduplication enabled or "
                "MessageDeduplicationId provided explicitly"
            )
        system["MessageDeduplicationId"] = hashlib.sha256(body).hexdigest()


def _delay(record: QueueRecord, said: Any) -> float:
    if said is None:
        return record.number("DelaySeconds")
    try:
        delay = int(said)
    except (TypeError, ValueError):
        raise bad_value("DelaySeconds", said, "Must be a number.") from None
    if not 0 <= delay <= DELAY_MAX:
        why = f"DelaySeconds must be >= 0 and <= {DELAY_MAX}."
        raise bad_value("DelaySeconds", said, why)
    return delay


def _check_size(size: int, record: QueueRecord) -> None:
    most = record.number("MaximumMessageSize")
    if size > most:
        raise bad_parameter(
            "One or more parameters are invalid. Reason: Message must be shorter than "
            f"{most} bytes."
        )


def checked_entries(said: Any, kind: str) -> list[dict[str, Any]]:
    """The entries of a batch, each with a name of its own."""
    entries = said if isinstance(said, list) else []
    if not entries:
        text = f"There should be at least one {kind} in the request."
        raise SqsError("EmptyBatchRequest", text)
    for one in entries:
        if not isinstance(one, dict) or one.get("Id") is None:
            raise missing(f"{kind}.1.Id")
        if not isinstance(one["Id"], str) or _ID.fullmatch(one["Id"]) is None:
            raise SqsError(
                "InvalidBatchEntryId",
                "A batch entry id can only contain alphanumeric characters, hyphens and "
                "underscores. It can be at most 80 letters long.",
            )
    if len(entries) > ENTRIES_MAX:
        raise SqsError(
            "TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are {ENTRIES_MAX}. "
            f"You have sent {len(entries)}.",
        )
    seen: Counter[str] = Counter()
    for one in entries:
        seen[one["Id"]] += 1
        if seen[one["Id"]] > 1:
            raise SqsError("BatchEntryIdsNotDistinct", f"Id {one['Id']} repeated.")
    return entries


def failure(name: str, error: SqsError) -> Told:
    """An entry that was not done."""
    return {
        "Id": name,
        "SenderFault": error.status < 500,
        "Code": error.old_code,
        "Message": error.message,
    }
