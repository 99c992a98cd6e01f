"""What partitions, anchors and doors say to each other, as it comes to a node and goes from it."""

from collections.abc import Callable
from typing import Any, Final, assert_never

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.api.partition_names import part_name, part_of, whole_of
from snowmelt.protocols.queue.leader.leader import Leader
from snowmelt.protocols.queue.leader.parted.anchor import Anchor
from snowmelt.protocols.queue.leader.parted.partition import Partition
from snowmelt.protocols.queue.leader.terms import Terms
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.messages.partition_words import (
    CancelPartedGet,
    News,
    NextPhase,
    Nothing,
    Numbers,
    PartedGet,
    PartedGetCancelled,
    PartialAnswer,
    PartitionReport,
    Post,
    Ready,
    RequestNumbers,
    ToAnchor,
    ToDoor,
    ToPart,
)
from snowmelt.protocols.queue.metadata.metadata_cache import AGAIN_AFTER, MetadataCache
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.router.parted_gets import PartedGets
from snowmelt.protocols.queue.streams import node_of

HELD_MAX: Final = 1_000
"""So much waits for the home of an anchor; what is beyond is said again."""


class PartedRouter:
    """Routes what partitions, anchors and request routers of one node send."""

    def __init__(
        self, outbox: Outbox, metadata: MetadataCache, terms: Terms, gathering: PartedGets
    ) -> None:
        self._outbox = outbox
        self._metadata = metadata
        self._terms = terms
        self._gathering = gathering
        self._sought: dict[str, Instant] = {}
        self._held: dict[str, list[Post]] = {}
        """What is for an anchor whose home is not known, by its queue."""
        self._anchors: dict[str, int] = {}
        """The term of the last anchor that was heard of."""

    def hears(self) -> dict[type, Callable[[NodeId, Any], None]]:
        return {
            Post: self.post,
            News: self.news,
            Numbers: self.numbers,
            NextPhase: self.turn,
            PartialAnswer: self.to_door,
            Nothing: self.to_door,
            PartedGetCancelled: self.to_door,
            **dict.fromkeys(
                (RequestNumbers, PartedGet, CancelPartedGet, PartitionReport, Ready), self.to_anchor
            ),
        }

    def to_door(self, _: NodeId, word: ToDoor) -> None:
        """What a get has, that there is nothing for it, or that it has left."""
        match word:
            case PartialAnswer():
                self._gathering.given(word)
            case Nothing():
                self._gathering.nothing(word)
            case PartedGetCancelled():
                self._gathering.leaving.left(word)
            case _:
                assert_never(word)

    # --- to the anchor ----------------------------------------------------------------------------

    def post(self, _: NodeId, post: Post) -> None:
        """Goes to whoever leads partition 0, if that is known."""
        home = self._metadata.home(post.queue)
        if home is None:
            held = self._held.setdefault(post.queue, [])
            if len(held) < HELD_MAX:
                held.append(post)
            self._metadata.ask(post.queue, None)
        else:
            say = self._outbox.send_again if post.again else self._outbox.send
            say(node_of(home.master), post.word)

    def news(self, _: NodeId, word: News) -> None:
        """A home may have changed."""
        self._metadata.refresh(word.queue)

    def to_anchor(self, source: NodeId, word: ToAnchor) -> None:
        """For who leads partition 0 here; who does not is silent, and asked again elsewhere."""
        queue = part_name(whole_of(word.queue), 0)
        leader = self._terms.leaders.get(queue)
        if leader is None or leader.partition is None:
            self._seek(queue)
            return
        anchor = leader.partition.anchor
        if anchor is None or (part_of(word.queue) or 0) >= len(anchor.parts):
            return
        self._terms.touched[queue] = None
        match word:
            case RequestNumbers():
                anchor.counting.ask(source, word)
            case PartedGet():
                anchor.want(source, word)
            case CancelPartedGet():
                anchor.leave(source, word)
            case PartitionReport():
                anchor.report(word)
            case Ready():
                anchor.ready(word.queue, word.term)
            case _:
                assert_never(word)

    # --- to partitions ----------------------------------------------------------------------------

    def numbers(self, source: NodeId, word: Numbers) -> None:
        """For who leads a partition here."""
        partition = self._partition(word)
        if partition is not None:
            partition.numbers(source, word)

    def turn(self, source: NodeId, word: NextPhase) -> None:
        partition = self._partition(word)
        if partition is not None:
            partition.turn(source, word)

    def _partition(self, word: ToPart) -> Partition | None:
        leader = self._terms.leading(word.queue, word.term)
        if leader is None:
            self._seek(word.queue)
        return None if leader is None else leader.partition

    def _seek(self, queue: str) -> None:
        """Somebody believes that this node leads it: perhaps it is to, and has not heard it."""
        now = self._outbox.now
        if later(self._sought.get(queue, Instant(0)), AGAIN_AFTER) <= now:
            self._sought[queue] = now
            self._metadata.refresh(queue)

    # --- who is here ------------------------------------------------------------------------------

    def heard(self, home: Assignment) -> None:
        """Who leads a partition, or is to."""
        part = part_of(home.queue)
        if part is None:
            return
        whole = whole_of(home.queue)
        first = part_name(whole, 0)
        known, own = self._metadata.home(first), self._terms.leaders.get(home.queue)
        if own is not None and own.partition is not None:
            own.partition.begin(0 if known is None else known.term)
        anchor = _anchor_of(self._terms.leaders.get(first))
        if anchor is not None:
            anchor.heard(home)
            self._terms.touched[first] = None
        if part != 0 or not home.active:
            return
        for post in self._held.pop(home.queue, ()):
            self._outbox.send(node_of(home.master), post.word)
        if home.term > self._anchors.get(whole, 0):
            self._anchors[whole] = home.term
            self._gathering.heard(home)
            for at in range(home.settings.partitions):
                leader = self._terms.leaders.get(part_name(whole, at))
                if leader is not None and leader.parted is not None:
                    leader.parted.numbering.ask_again()

    def viewed(self) -> None:
        self._sought.clear()
        for queue, leader in self._terms.leaders.items():
            anchor = _anchor_of(leader)
            if anchor is not None:
                anchor.viewed()
                self._terms.touched[queue] = None


def _anchor_of(leader: Leader | None) -> Anchor | None:
    """Be it in use already or not."""
    return None if leader is None or leader.parted is None else leader.parted.anchor
