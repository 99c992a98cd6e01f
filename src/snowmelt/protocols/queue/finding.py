"""Where a queue is at home, for whoever asks at a door: found out, waited for, or told as away."""

from collections.abc import Callable
from typing import Any, Final

from snowmelt.core.errors import BadOption
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import AskAnother, Declined, Elsewhere
from snowmelt.protocols.queue import calls, deletes
from snowmelt.protocols.queue.absence import waits
from snowmelt.protocols.queue.asking import problem
from snowmelt.protocols.queue.desk import Desk
from snowmelt.protocols.queue.directory import Directory
from snowmelt.protocols.queue.messages import Delete, Home, Nowhere
from snowmelt.protocols.queue.settings import QueueSettings
from snowmelt.protocols.queue.words import Heard

NO_VIEW: Final = "this node has no current view of its cluster"

Serves = Callable[[OperationId, Any], bool]
"""Does what is asked, if its queue is served here; says whether it is."""
Opened = Callable[[OperationId, Home], None]
"""Grants a queue."""


def of_another(queue: str) -> Declined:
    """What is told to who means a queue that was deleted, where there is another of its name."""
    text = f"queue {queue!r} was deleted; another one of this name was made since"
    return Declined("QueueDeleted", text)


class Finding:
    def __init__(
        self,
        desk: Desk,
        directory: Directory,
        serves: Serves,
        opened: Opened,
    ) -> None:
        self._desk = desk
        self._directory = directory
        self._serves = serves
        self._opened = opened

    def goes_on(self, operation: OperationId, request: Any) -> bool:
        """Whether a call is about one queue, and sound; any other is answered here."""
        desk = self._desk
        if desk.presence is None:
            desk.decline(operation, "Unavailable", NO_VIEW)
            return False
        if type(request) is calls.ListQueues:
            self._directory.roll(operation)
            return False
        try:
            wrong = problem(request, desk.wall)
        except BadOption as error:
            wrong = str(error)
        if wrong:
            desk.decline(operation, "BadOption", wrong)
        return not wrong

    def delete(self, operation: OperationId, ask: deletes.Delete) -> None:
        """Whoever decides on homes is asked; a client that hears nothing asks again."""
        presence = self._desk.presence
        assert presence is not None, "else nothing is asked"
        word = Delete(ask.queue, operation, ask.if_empty, ask.lost)
        self._desk.send(presence.view.coordinator, word)

    def ask(
        self, operation: OperationId, request: Any, settings: QueueSettings | None = None
    ) -> None:
        """Finds out where a queue is at home; who looks for too many at once is told so."""
        if not self._directory.ask(request.queue, (operation, request), settings):
            text = f"too many queues are looked for at this node to look for {request.queue!r}"
            self._desk.decline(operation, "Unavailable", f"{text} as well")

    def open(self, operation: OperationId, ask: calls.Open) -> None:
        """Finds a queue, or has it made."""
        try:
            settings = ask.settings and ask.settings.checked()
        except BadOption as error:
            self._desk.decline(operation, "BadOption", str(error))
        else:
            self.ask(operation, ask, settings)

    def point_later(self, operation: OperationId, request: Any) -> None:
        """What is known of this queue is old: says who serves it as soon as that is known.

        Here it is never known while this node is cut off: then the client asks another at once.
        """
        if self._desk.presence is None:
            self._desk.reply(operation, AskAnother())
        else:
            self._directory.wait_for_news(request.queue, (operation, request))

    def heard(self, word: Heard) -> None:
        """Where the queue of a call is at home: the call goes on."""
        operation, request = word.operation, word.request
        match word.home:
            case Home() as home if type(request) is calls.Open:
                if not self.waits(operation, home):
                    self._opened(operation, home)
            case Home() as home:
                self._point(operation, request, home)
            case Nowhere(error="NoSuchQueue") if _makes(request):
                self.ask(operation, request, QueueSettings(replicas=0))
            case Nowhere(_, "QueueExists", text) if _makes(request):
                if self._directory.home(request.queue) is None:  # its first partition is not there
                    text = f"it is being made just now, or only in part: {text}"
                    self._desk.decline(operation, "Unavailable", text)
                else:
                    self.ask(operation, request)
            case Nowhere(_, error, text):
                self._desk.decline(operation, error, text)

    def _point(self, operation: OperationId, request: Any, home: Home) -> None:
        """Somebody else serves this queue; or this node does by now, or will soon."""
        place = self.place(home.master)
        if self._serves(operation, request):
            return
        if home.queue != request.queue and not isinstance(request, calls.Get | calls.Leave):
            # This name has several partitions now, and only they do such things.
            self._desk.reply(operation, of_another(request.queue))
        elif place is not None and place.node != self._desk.me:
            self._desk.reply(operation, Elsewhere(place.node, place.address))
        elif not self.waits(operation, home):  # what this node has heard is old
            self.point_later(operation, request)

    def waits(self, operation: OperationId, home: Home) -> bool:
        """Whether nobody who is here can have the queue go on; then the client is told for whom."""
        presence = self._desk.presence
        if presence is None or home.master in presence.keepers:
            return False
        whom = waits(home, presence, self._desk.now)
        if whom is not None:
            self._directory.forget(home.queue)
            self._desk.decline(operation, whom.error, whom.text)
        return whom is not None

    def place(self, keeper: str) -> calls.Place | None:
        """Where a keeper listens, if it is here."""
        presence = self._desk.presence
        member = None if presence is None else presence.keepers.get(keeper)
        return None if member is None else calls.Place(member.id, member.address)


def _makes(request: Any) -> bool:
    """Whether it opens a queue as it is, or has one made of which nothing is said."""
    return type(request) is calls.Open and request.settings is None and request.make
