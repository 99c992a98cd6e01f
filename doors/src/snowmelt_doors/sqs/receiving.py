"""Messages out: received under a lease each, deleted, and kept longer or shorter.

What one answer brings is under one lease. A program may change the time of one message of it: that
one is extended alone, and still known by the token of that lease.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable
from time import monotonic
from typing import Any, Final

import msgspec

from snowmelt.aio import Item
from snowmelt.core.errors import BadOption, Empty, LeaseLost, NoSuchQueue, SnowmeltError
from snowmelt_doors.sqs.attributes import QueueRecord, number_in
from snowmelt_doors.sqs.dead_letters import DeadLetters
from snowmelt_doors.sqs.errors import SqsError, bad_parameter, bad_value, missing, told
from snowmelt_doors.sqs.messages import (
    Attribute,
    ReceiptHandle,
    SqsMessage,
    digest_of,
    digest_of_attributes,
    text_of,
    unpacked,
)
from snowmelt_doors.sqs.queues import Params, SqsCaller, SqsQueues, Told
from snowmelt_doors.sqs.sending import checked_entries, failure

MESSAGES_MAX: Final = 10
WAIT_MAX: Final = 20
VISIBILITY_MAX: Final = 43_200
BACK_AT_ONCE: Final = "its visibility timeout was set to 0"
_SHORTEST: Final = 30.0
"""For so long is held what goes back at once, when all of an answer are there."""
_FIRST_KNOWN: Final = 100_000
_SYSTEM: Final = frozenset((
    "All", "SenderId", "SentTimestamp", "ApproximateReceiveCount",
    "ApproximateFirstReceiveTimestamp", "SequenceNumber", "MessageDeduplicationId",
    "MessageGroupId", "AWSTraceHeader", "DeadLetterQueueSourceArn",
))  # fmt: skip


class ReceiveOptions(msgspec.Struct, frozen=True):
    """What a program asks to receive."""

    count: int
    visibility: int
    wait: int
    system: frozenset[str]
    names: tuple[str, ...]


class ReceivedItem(msgspec.Struct, frozen=True):
    """An item, and the message that it is."""

    item: Item
    message: SqsMessage


class MessageReceiver:
    def __init__(self, queues: SqsQueues, dead_letters: DeadLetters) -> None:
        self._queues = queues
        self._dead_letters = dead_letters
        self._first: OrderedDict[tuple[str, int], int] = OrderedDict()
        """When messages that came again were received first, as far as this door knows."""

    async def receive_message(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        record = await self._queues.record(asked.get("QueueUrl"))
        wanted = _read(record, asked)
        queue = self._queues.fifo(record.name)
        lease = float(wanted.visibility or _SHORTEST)
        until = monotonic() + wanted.wait
        while True:
            left = max(0.0, until - monotonic())
            try:
                items = await queue.get_many(
                    wanted.count, timeout=left, lease=lease, together=record.is_fifo
                )
            except (Empty, NoSuchQueue):
                return {}
            some = await self._good(record, items)
            if some:
                break
        told = [self._shown(record, wanted, one) for one in some]
        if not wanted.visibility:
            await items.nack(reason=BACK_AT_ONCE)
        return {"Messages": told}

    async def _good(self, record: QueueRecord, items: Iterable[Item]) -> list[ReceivedItem]:
        """Those that are to be told; what is too old ends, what failed too often goes elsewhere."""
        found: list[ReceivedItem] = []
        now, policy = time.time() * 1000, record.redrive
        oldest = now - record.number("MessageRetentionPeriod") * 1000
        for item in items:
            name = f"{record.name}-{item.position}"
            one = ReceivedItem(item, unpacked(item.body, item.headers, name))
            if _sent(one) < oldest:
                await item.ack()
            elif (
                policy is not None
                and item.failures >= policy.receives_max
                and self._queues.has(policy.target)
            ):
                await self._dead_letters.move(record, policy.target, item, one.message)
            else:
                found.append(one)
        return found

    def _shown(self, record: QueueRecord, wanted: ReceiveOptions, one: ReceivedItem) -> Told:
        item, envelope = one.item, one.message.envelope
        body = text_of(one.message)
        found: Told = {
            "MessageId": envelope.id,
            "ReceiptHandle": _receipt(item).handle(record.name),
            "MD5OfBody": digest_of(body.encode()),
            "Body": body,
        }
        if wanted.system:
            system = self._system(record, one)
            whole = "All" in wanted.system
            some = {key: value for key, value in system.items() if whole or key in wanted.system}
            if some:
                found["Attributes"] = some
        some_own = {
            name: value for name, value in envelope.attributes.items() if _fits(name, wanted.names)
        }
        if some_own:
            found["MessageAttributes"] = {name: _written(one) for name, one in some_own.items()}
            found["MD5OfMessageAttributes"] = digest_of_attributes(some_own)
        return found

    def _system(self, record: QueueRecord, one: ReceivedItem) -> dict[str, str]:
        item = one.item
        order = {"SequenceNumber": f"{item.position:020}"} if record.is_fifo else {}
        return {
            "SenderId": "",
            **one.message.envelope.system,
            **order,
            "SentTimestamp": str(_sent(one)),
            "ApproximateReceiveCount": str(item.failures + 1),
            "ApproximateFirstReceiveTimestamp": str(self._received_first(record.name, one)),
        }

    def _received_first(self, queue: str, one: ReceivedItem) -> int:
        """As this door knows it; of what another door received first, when it was sent."""
        key = queue, one.item.position
        known = self._first.get(key)
        if known is not None:
            return known
        first = _sent(one) if one.item.failures else int(time.time() * 1000)
        self._first[key] = first
        if len(self._first) > _FIRST_KNOWN:
            self._first.popitem(last=False)
        return first

    # --- what becomes of them ---------------------------------------------------------------------

    async def delete_message(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        record = await self._queues.record(asked.get("QueueUrl"))
        await self._delete(record, asked)
        return {}

    async def delete_message_batch(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        record = await self._queues.record(asked.get("QueueUrl"))
        entries = checked_entries(asked.get("Entries"), "DeleteMessageBatchRequestEntry")
        return await _each(entries, [self._delete(record, one, each=True) for one in entries])

    async def _delete(self, record: QueueRecord, asked: Params, *, each: bool = False) -> None:
        """An expired receipt deletes nothing; of a standard queue that is no error, as in SQS."""
        item = self._held(record, asked, each=each)
        try:
            await item.ack()
        except LeaseLost:
            if record.is_fifo:  # there nobody may take it for done
                handle, why = asked["ReceiptHandle"], "The receipt handle has expired."
                raise bad_value("ReceiptHandle", handle, why) from None

    async def change_message_visibility(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        record = await self._queues.record(asked.get("QueueUrl"))
        await self._change_visibility(record, asked)
        return {}

    async def change_message_visibility_batch(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        record = await self._queues.record(asked.get("QueueUrl"))
        kind = "ChangeMessageVisibilityBatchRequestEntry"
        entries = checked_entries(asked.get("Entries"), kind)
        some = [self._change_visibility(record, one, each=True) for one in entries]
        return await _each(entries, some)

    async def _change_visibility(
        self, record: QueueRecord, asked: Params, *, each: bool = False
    ) -> None:
        item = self._held(record, asked, each=each)
        seconds = number_in(asked, "VisibilityTimeout", 0, VISIBILITY_MAX, None)
        try:
            if seconds:
                await item.extend(lease=seconds, alone=True)
            else:
                await item.nack(reason=BACK_AT_ONCE)
        except LeaseLost:
            raise SqsError(
                "MessageNotInflight",
                "The message is not in flight any more: its visibility timeout was over, or it was "
                "deleted.",
            ) from None

    def _held(self, record: QueueRecord, asked: Params, *, each: bool) -> Item:
        """The item that a receipt names."""
        handle = asked.get("ReceiptHandle")
        if not handle:
            raise missing("ReceiptHandle")
        try:
            one = ReceiptHandle.read(handle, record.name)
            return self._queues.fifo(record.name).leased(one.token, one.position, one.secret)
        except BadOption:
            raise SqsError(
                "ReceiptHandleIsInvalid", "The input receipt handle is invalid."
            ) from None
        except SqsError as error:
            if not each:
                raise
            text = f'The input receipt handle "{str(handle)[:200]}" is not a valid receipt handle.'
            raise SqsError(error.code, text) from None


async def _each(entries: list[dict[str, Any]], some: list[Any]) -> Told:
    outcomes = await asyncio.gather(*some, return_exceptions=True)
    done: list[Told] = []
    failed: list[Told] = []
    for one, outcome in zip(entries, outcomes, strict=True):
        if isinstance(outcome, SqsError):
            failed.append(failure(one["Id"], outcome))
        elif isinstance(outcome, SnowmeltError):
            failed.append(failure(one["Id"], told(outcome)))
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            done.append({"Id": one["Id"]})
    return {"Successful": done} | ({"Failed": failed} if failed else {})


def _read(record: QueueRecord, asked: Params) -> ReceiveOptions:
    visibility = record.number("VisibilityTimeout")
    wait = record.number("ReceiveMessageWaitTimeSeconds")
    system = {*_names(asked, "AttributeNames"), *_names(asked, "MessageSystemAttributeNames")}
    for one in system:
        if one not in _SYSTEM:
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {one}.")
    return ReceiveOptions(
        number_in(asked, "MaxNumberOfMessages", 1, MESSAGES_MAX, 1),
        number_in(asked, "VisibilityTimeout", 0, VISIBILITY_MAX, visibility),
        number_in(asked, "WaitTimeSeconds", 0, WAIT_MAX, wait),
        frozenset(system),
        tuple(_names(asked, "MessageAttributeNames")),
    )


def _names(asked: Params, name: str) -> list[str]:
    said = asked.get(name) or []
    if not isinstance(said, list) or len(said) > 100:
        raise bad_parameter(f"{name} is no list of names")
    return [str(one) for one in said]


def _fits(name: str, patterns: Iterable[str]) -> bool:
    """Whether a message attribute is asked for.

    >>> _fits("Custom1", ["Custom.*"]), _fits("Other", ["Custom.*"]), _fits("Other", ["All"])
    (True, False, True)
    """
    return any(
        one in ("All", ".*", name) or (one.endswith(".*") and name.startswith(one[:-2]))
        for one in patterns
    )


def _receipt(item: Item) -> ReceiptHandle:
    token = item.token
    return ReceiptHandle(token, item.position, getattr(token, "secret", b""))


def _written(one: Attribute) -> Told:
    if one.is_text:
        return {"StringValue": one.value.decode(), "DataType": one.kind}
    return {"BinaryValue": one.value, "DataType": one.kind}


def _sent(one: ReceivedItem) -> int:
    """When it was sent, in ms since 1970."""
    put_at = one.item.put_at
    if one.message.envelope.sent or put_at is None:
        return one.message.envelope.sent
    return int(put_at.timestamp() * 1000)
