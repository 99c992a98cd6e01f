"""What a golden script asks of a priority queue, by plain words."""

from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.node import Send
from snowmelt.protocols.calling import Answer
from snowmelt.protocols.host import Family
from snowmelt.protocols.priority import MESSAGES, PriorityNode, calls
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.sim.trace import Trace

QUEUE: Final = "jobs"
SETTINGS: Final = QueueSettings(queue=QUEUE, priorities=2, replicas=2, lease=seconds(2))


def queue_family(node: NodeId, chance: Random) -> Family:
    return Family("priority", PriorityNode(node, chance), MESSAGES)


class Client:
    """Names what it was told last: by which node it opened the queue, and what it holds."""

    words = ("open", "put", "get", "ack", "back", "count")

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def body(self, what: str, words: tuple[str, ...]) -> Any:
        match what, words:
            case "open", ():
                return calls.Open(QUEUE, SETTINGS)
            case "open", (copies,):
                settings = msgspec.structs.replace(SETTINGS, replicas=int(copies))
                return calls.Open(QUEUE, settings)
            case "put", (priority, body):
                batch = Batch.of([body.encode()])
                part = calls.Part(int(priority), bytes(batch.offsets), bytes(batch.blob))
                return calls.Put(QUEUE, self._told(calls.Opened).via, (part,))
            case "get", ():
                return calls.Get(QUEUE, self._told(calls.Opened).via, 1, seconds(4))
            case "ack", ():
                return calls.Settle(QUEUE, done=(self._receipt(),))
            case "back", ():
                return calls.Settle(QUEUE, back=(self._receipt(),))
            case "count", ():
                return calls.Statistics(QUEUE)
            case _:
                raise BadOption("call", f"{what} {' '.join(words)}", "put 0 BODY, or one word")

    def _receipt(self) -> calls.Receipt:
        leased = self._told(calls.Leased)
        (piece,) = leased.pieces
        share = Share(piece.priority, (Interval(piece.start, piece.start + 1),))
        return calls.Receipt(leased.token, (share,))

    def _told(self, kind: type[Any]) -> Any:
        for step in reversed(self._trace.kept()):
            for effect in step.effects:
                answer = effect.message if isinstance(effect, Send) else None
                if isinstance(answer, Answer) and isinstance(answer.body, kind):
                    return answer.body
        raise BadOption("call", kind.__name__, "what was answered before")
