"""What failed too often goes to another queue, and from there back, by tasks.

1. A message goes to the dead-letter queue when it would be received once more than it may. It is
   put there first, and acknowledged then. Its put has a name and a number, so that a door that died
   between does not make two of it.
2. It takes with it when it was sent, and which queue it comes from.
"""

from contextlib import suppress
from typing import Final

import msgspec

from snowmelt.aio import Item
from snowmelt.core.errors import LeaseLost, SequenceTooOld
from snowmelt_doors.sqs.attributes import QueueRecord, engine_name
from snowmelt_doors.sqs.messages import SqsMessage, packed
from snowmelt_doors.sqs.queues import SqsQueues

SOURCE: Final = "DeadLetterQueueSourceArn"


class DeadLetters:
    def __init__(self, queues: SqsQueues) -> None:
        self._queues = queues

    async def move(self, record: QueueRecord, target: str, item: Item, message: SqsMessage) -> None:
        """Puts an item elsewhere, and acknowledges it (rule 1)."""
        envelope, put_at = message.envelope, item.put_at
        sent = envelope.sent or (int(put_at.timestamp() * 1000) if put_at is not None else 0)
        system = envelope.system | {SOURCE: record.arn}
        again = msgspec.structs.replace(envelope, sent=sent, system=system)
        body, headers = packed(message.body, again)
        await self.put_once(record, target, item, body, headers)
        with suppress(LeaseLost):  # else it comes again, and is put under the same number
            await item.ack()

    async def put_once(
        self,
        source: QueueRecord,
        target: str,
        item: Item,
        body: bytes,
        headers: dict[str, str | bytes],
    ) -> None:
        """The put of an item of another queue: its position is the number, made anew each time."""
        name = engine_name(target)
        producer = f"sqs.{source.uid}"
        queue = self._queues.cluster.fifo(name, producer=producer)
        try:
            await queue.put(body, headers=headers, sequence=item.position, key=item.key)
        except SequenceTooOld:  # thousands that came before were not moved: nothing is known of it
            await self._queues.cluster.fifo(name).put(body, headers=headers, key=item.key)
