"""What takes messages of one queue for a worker of Dramatiq's."""

import time
from collections.abc import Iterable
from typing import Any, Final

import dramatiq
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.errors import ConnectionClosed, DecodeError
from dramatiq.logging import get_logger

from snowmelt import LeaseLost, SnowmeltError
from snowmelt_doors.places import AWAY

_PAUSE: Final = 0.2


class SnowmeltMessage(MessageProxy):
    """A message in hand, and the item that it came in."""

    def __init__(self, message: dramatiq.Message[Any], item: Any) -> None:
        super().__init__(message)
        self.item = item
        self.open = True
        """Nobody has said yet what becomes of it."""


class SnowmeltConsumer(Consumer):
    """Messages of one queue. Its thread takes them; others may acknowledge them.

    Of `prefetch` messages half may wait in the source of items, and so many fewer are handed out:
    together they are never more.
    """

    def __init__(self, queue: Any, queue_name: str, prefetch: int, timeout: int) -> None:
        self.logger = get_logger(__name__, type(self))
        self.queue_name = queue_name
        ahead = max(1, prefetch // 2)
        self._most = max(1, prefetch - ahead + 1)
        self._source = queue.intake(ahead)
        self._timeout = timeout / 1000
        self._hand: dict[int, SnowmeltMessage] = {}
        """Each change is one step, so it needs no lock."""
        self._reached = self._silent = False

    def __next__(self) -> MessageProxy | None:
        """The next message; None when none came in the time, or enough are in hand."""
        if len(self._hand) >= self._most:
            time.sleep(min(self._timeout, 0.01))
            return None
        try:
            item = self._source.next(self._timeout)
        except AWAY as error:
            if not self._reached:
                raise ConnectionClosed(error) from error
            if not self._silent:  # said once, for it may last
                self.logger.warning("Queue %r is out of reach: %s", self.queue_name, error)
            self._silent = True
            time.sleep(min(self._timeout, _PAUSE))
            return None
        self._reached, self._silent = True, False
        return None if item is None else self._message(item)

    def ack(self, message: MessageProxy) -> None:
        """It is done, and never comes again."""
        self._settle(message, "acknowledge", lambda item: item.ack())

    def nack(self, message: MessageProxy) -> None:
        """It is set aside as dead, with the error that it ended by."""
        error = message._exception  # noqa: SLF001  # Dramatiq's own brokers look at it as well
        reason = f"{type(error).__name__}: {error}" if error is not None else "rejected"
        self._settle(message, "reject", lambda item: item.nack(reason=reason, dead=True))

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        """They go back to their places, as if they had not been taken."""
        for message in messages:
            self._settle(message, "requeue", lambda item: item.release())

    def close(self) -> None:
        """Acknowledges what is done; all else goes back."""
        self._source.rest()
        self._source.close()

    def _message(self, item: Any) -> MessageProxy | None:
        try:
            decoded = dramatiq.Message.decode(item.body)
        except DecodeError:
            self.logger.exception("A message of queue %r can't be decoded.", self.queue_name)
            item.nack(reason="it can't be decoded", dead=True)
            return None
        message = SnowmeltMessage(decoded, item)
        self._hand[id(message)] = message  # a message has no hash
        return message

    def _settle(self, message: Any, what: str, settle: Any) -> None:
        if not message.open:
            self.logger.warning("Message %s was settled before.", message.message_id)
            return
        try:
            settle(message.item)
        except LeaseLost as error:
            self.logger.warning("Failed to %s %s: %s", what, message.message_id, error)
        except AWAY as error:  # Dramatiq asks again
            raise ConnectionClosed(error) from error
        except SnowmeltError:
            self.logger.exception("Failed to %s %s.", what, message.message_id)
        message.open = False
        self._hand.pop(id(message), None)
