"""Whether the places make one order."""

from collections.abc import Sequence

from snowmelt.protocols.arrow.messages import Followed, OrderPlace


def wrong_order(
    told: Sequence[Followed],
    asked: Sequence[OrderPlace],
    flying: Sequence[OrderPlace],
    last: Sequence[OrderPlace],
) -> str | None:
    """What is wrong with the order that was told from a legal state on, when all finds have ended.

    `asked` are the places asked for since, `flying` those whose finds were on their way before, and
    `last` the last places of all sinks there are. Nobody follows two or is followed by two; whoever
    asked or was flying follows someone; there is one sink, and its place is a tail. Every other
    tail was flying: what came before it in the order belongs to a time before this one. So without
    flying finds it is one order from head to tail.

    >>> from snowmelt.core.names import NodeId, OperationId
    >>> a, b, c = (OrderPlace(NodeId("n"), OperationId(NodeId("n"), count)) for count in range(3))
    >>> wrong_order([Followed(a, b), Followed(b, c)], [b, c], [], [c])
    >>> wrong_order([Followed(a, b), Followed(a, c)], [b, c], [], [c])
    "two follow OrderPlace(node='n', name=OperationId(client='n', number=0), filler=False)"
    """
    after: dict[OrderPlace, OrderPlace] = {}
    before: dict[OrderPlace, OrderPlace] = {}
    for link in told:
        if link.place in after:
            return f"two follow {link.place}"
        if link.by in before:
            return f"{link.by} follows two"
        after[link.place], before[link.by] = link.by, link.place
    for place in (*asked, *flying):
        if place not in before:
            return f"{place} follows nobody"
    if len(last) != 1:
        return f"{len(last)} sinks"
    return _wrong_tails(after, before, flying, last[0])


def _wrong_tails(
    after: dict[OrderPlace, OrderPlace],
    before: dict[OrderPlace, OrderPlace],
    flying: Sequence[OrderPlace],
    last: OrderPlace,
) -> str | None:
    walked = 0
    strays = dict.fromkeys(flying)
    for head in [place for place in after if place not in before]:
        place = head
        while place in after:
            place = after[place]
            walked += 1
        if place != last and place not in strays:
            return f"{place} is a tail"
    if walked != len(after):
        return "some places follow each other in a circle"
    if after and not flying and last not in before:
        return f"{last} is at a sink, but follows nobody"
    return None
