"""Where a queue is at home, for whoever asks at a door: found out, waited for, or told as away."""

from collections.abc import Callable
from typing import Any, Final

from snowmelt.core.errors import BadOption
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import AskAnother, Declined, Elsewhere
from snowmelt.protocols.queue.api import calls, deletes
from snowmelt.protocols.queue.api.asking import problem
from snowmelt.protocols.queue.api.settings import QueueSettings, differences, otherwise
from snowmelt.protocols.queue.api.statuses import ListQueues
from snowmelt.protocols.queue.messages.home_words import Assignment, DeleteQueue, Nowhere
from snowmelt.protocols.queue.messages.words import CallRouted
from snowmelt.protocols.queue.metadata.absence import waits
from snowmelt.protocols.queue.metadata.metadata_cache import MetadataCache
from snowmelt.protocols.queue.outbox import Outbox

NO_VIEW: Final = "this node has no current view of its cluster"

Serves = Callable[[OperationId, Any], bool]
"""Does what is asked, if its queue is served here; says whether it is."""
Opened = Callable[[OperationId, Assignment], None]
"""Grants a queue."""


def of_another(queue: str) -> Declined:
    """What is told to who means a queue that was deleted, where there is another of its name."""
    text = f"queue {queue!r} was deleted; another one of this name was made since"
    return Declined("QueueDeleted", text)


class Finding:
    def __init__(
        self,
        outbox: Outbox,
        metadata: MetadataCache,
        serves: Serves,
        opened: Opened,
    ) -> None:
        self._outbox = outbox
        self._metadata = metadata
        self._serves = serves
        self._opened = opened

    def goes_on(self, operation: OperationId, request: Any) -> bool:
        """Whether a call is about one queue, and sound; any other is answered here."""
        outbox = self._outbox
        if outbox.presence is None:
            outbox.decline(operation, "Unavailable", NO_VIEW)
            return False
        if type(request) is ListQueues:
            self._metadata.roll(operation, request.only)
            return False
        try:
            wrong = problem(request, outbox.wall)
        except BadOption as error:
            wrong = str(error)
        if wrong:
            outbox.decline(operation, "BadOption", wrong)
        return not wrong

    def delete(self, operation: OperationId, ask: deletes.Delete) -> None:
        """Whoever decides on homes is asked; a client that hears nothing asks again."""
        word = DeleteQueue(ask.queue, operation, ask.if_empty, ask.lost, ask.moved_to)
        self._outbox.to_coordinator(word)

    def ask(
        self, operation: OperationId, request: Any, settings: QueueSettings | None = None
    ) -> None:
        """Finds out where a queue is at home; who looks for too many at once is told so."""
        if not self._metadata.ask(request.queue, (operation, request), settings):
            text = f"too many queues are looked for at this node to look for {request.queue!r}"
            self._outbox.decline(operation, "Unavailable", f"{text} as well")

    def open(self, operation: OperationId, ask: calls.Open) -> None:
        """Finds a queue, or has it made."""
        try:
            settings = ask.settings and ask.settings.checked()
        except BadOption as error:
            self._outbox.decline(operation, "BadOption", str(error))
        else:
            self.ask(operation, ask, settings if ask.may_make else None)

    def point_later(self, operation: OperationId, request: Any) -> None:
        """What is known of this queue is old: says who serves it as soon as that is known.

        Here it is never known while this node is cut off: then the client asks another at once.
        """
        if self._outbox.presence is None:
            self._outbox.reply(operation, AskAnother())
        else:
            self._metadata.wait_for_news(request.queue, (operation, request))

    def heard(self, word: CallRouted) -> None:
        """Where the queue of a call is at home: the call goes on."""
        operation, request = word.operation, word.request
        match word.home:
            case Assignment() as home if type(request) is calls.Open:
                asked = request.settings
                if not request.may_make and asked and differences(home.asked_for, asked):
                    text = otherwise(request.queue, home.asked_for, asked)
                    self._outbox.decline(operation, "QueueExists", text)
                elif not self.waits(operation, home):
                    self._opened(operation, home)
            case Assignment() as home:
                self._point(operation, request, home)
            case Nowhere(error="NoSuchQueue") if _may_not(request):
                text = f"there is no queue {request.queue!r}, and this user may not make it: that"
                text = f"{text} takes the right manage:{request.queue}"
                self._outbox.decline(operation, "AccessDenied", text)
            case Nowhere(error="NoSuchQueue") if _makes(request):
                self.ask(operation, request, QueueSettings(replicas=0))
            case Nowhere(_, "QueueExists", text) if _makes(request):
                if self._metadata.home(request.queue) is None:  # its first partition is not there
                    text = f"it is being made just now, or only in part: {text}"
                    self._outbox.decline(operation, "Unavailable", text)
                else:
                    self.ask(operation, request)
            case Nowhere(_, error, text):
                self._outbox.decline(operation, error, text)

    def _point(self, operation: OperationId, request: Any, home: Assignment) -> None:
        """Somebody else serves this queue; or this node does by now, or will soon."""
        place = self.place(home.master)
        if self._serves(operation, request):
            return
        if home.queue != request.queue and not isinstance(request, calls.Get | calls.CancelGet):
            # This name has several partitions now, and only they do such things.
            self._outbox.reply(operation, of_another(request.queue))
        elif place is not None and place.node != self._outbox.me:
            self._outbox.reply(operation, Elsewhere(place.node, place.address))
        elif not self.waits(operation, home):  # what this node has heard is old
            self.point_later(operation, request)

    def waits(self, operation: OperationId, home: Assignment) -> bool:
        """Whether nobody who is here can have the queue go on; then the client is told for whom."""
        presence = self._outbox.presence
        if presence is None or home.master in presence.keepers:
            return False
        whom = waits(home, presence, self._outbox.now)
        if whom is not None:
            self._metadata.forget(home.queue)
            self._outbox.decline(operation, whom.error, whom.text)
        return whom is not None

    def place(self, keeper: str) -> calls.NodeAddress | None:
        """Where a keeper listens, if it is here."""
        presence = self._outbox.presence
        member = None if presence is None else presence.keepers.get(keeper)
        return None if member is None else calls.NodeAddress(member.id, member.address)


def _makes(request: Any) -> bool:
    """Whether it opens a queue as it is, or has one made of which nothing is said."""
    return type(request) is calls.Open and request.settings is None and request.make


def _may_not(request: Any) -> bool:
    """Whether it would have a queue made for a user who may not."""
    makes = type(request) is calls.Open and (request.make or request.settings is not None)
    return makes and not request.may_make
