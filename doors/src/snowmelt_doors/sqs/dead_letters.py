"""What failed too often goes to another queue, and from there back, by tasks.

1. A message goes to the dead-letter queue when it would be received once more than it may. It is
   put there and acknowledged in one step: a door that dies makes neither two of it nor none.
2. It takes with it when it was sent, and which queue it comes from.
"""

from contextlib import suppress
from typing import Final

import msgspec

from snowmelt.aio import Item
from snowmelt.core.errors import LeaseLost
from snowmelt_doors.sqs.attributes import QueueRecord
from snowmelt_doors.sqs.messages import SqsMessage, packed
from snowmelt_doors.sqs.queues import SqsQueues

SOURCE: Final = "DeadLetterQueueSourceArn"


class DeadLetters:
    def __init__(self, queues: SqsQueues) -> None:
        self._queues = queues

    async def move(self, record: QueueRecord, target: str, item: Item, message: SqsMessage) -> None:
        """Has an item in another queue, and not in its own any more (rule 1)."""
        envelope, put_at = message.envelope, item.put_at
        sent = envelope.sent or (int(put_at.timestamp() * 1000) if put_at is not None else 0)
        system = envelope.system | {SOURCE: record.arn}
        again = msgspec.structs.replace(envelope, sent=sent, system=system)
        body, headers = packed(message.body, again)
        with suppress(LeaseLost):  # nothing was put, and it comes again
            await self.carry(target, item, body, headers)

    async def carry(
        self, target: str, item: Item, body: bytes, headers: dict[str, str | bytes]
    ) -> None:
        """An item of another queue comes in there, and is acknowledged."""
        async with self._queues.cluster.step() as step:
            step.ack(item)
            queue = self._queues.fifo(target)
            step.put(queue, body, headers=headers, key=item.key)
