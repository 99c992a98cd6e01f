"""Of what is leased: items, many of them, and loops over a queue."""

import time

from table.own import LEASE, SHORT
from table.recipes import Act, recipe


def one(own):
    """A leased item of the face's."""
    own.fill()
    item = yield own.queue.get()
    own.came(item)
    return item


def several(own):
    own.fill(2)
    items = yield own.queue.get_many(2)
    own.came(*items)
    return items


def comes_again(own):
    """What was given back."""
    item = yield own.queue.get(timeout=LEASE / 2)
    with own.takes_off(own.came(item)):
        yield item.ack()


@recipe("Item.ack")
def ack(own):
    item = yield from one(own)
    with own.takes_off([bytes(item.body)]):
        yield Act(item.ack)


@recipe("Item.nack", "Item.release")
def give_back(own):
    item = yield from one(own)
    yield Act(getattr(item, own.row.call.partition(".")[2]))
    yield from comes_again(own)


@recipe("Item.extend")
def extend(own):
    item = yield from one(own)
    time.sleep(0.6 * SHORT)
    yield Act(item.extend)
    time.sleep(0.6 * SHORT)
    with own.takes_off([bytes(item.body)]):
        yield item.ack()


@recipe("Item.with")
def within(own):
    item = yield from one(own)
    with own.takes_off([bytes(item.body)]):
        yield Act(own.within, item)


@recipe("Items.ack")
def ack_several(own):
    items = yield from several(own)
    with own.takes_off([bytes(item.body) for item in items]):
        yield Act(items.ack)


@recipe("Items.nack", "Items.release")
def give_back_several(own):
    items = yield from several(own)
    yield Act(getattr(items, own.row.call.partition(".")[2]))
    yield from comes_again(own)


@recipe("Items.extend")
def extend_several(own):
    items = yield from several(own)
    time.sleep(0.6 * SHORT)
    yield Act(items.extend)
    time.sleep(0.6 * SHORT)
    with own.takes_off([bytes(item.body) for item in items]):
        yield items.ack()


@recipe("Items.with")
def within_several(own):
    items = yield from several(own)
    with own.takes_off([bytes(item.body) for item in items]):
        yield Act(own.within, items)


@recipe("Items.for", words="local")
def each(own):
    items = yield from several(own)
    listed = yield Act(list, items)
    with own.takes_off([bytes(item.body) for item in listed]):
        yield items.ack()


# --- loops ----------------------------------------------------------------------------------------


def loop_of(own, count=1):
    own.fill(count)
    return own.queue.consume(timeout=3, prefetch=count)


@recipe("loop.next")
def following(own):
    loop = loop_of(own)
    item = yield Act(own.following, loop)
    with own.takes_off(own.came(item)):
        yield item.ack()
        yield closed(loop)


@recipe("loop.for", words="local")
def iterated(own):
    loop = loop_of(own)
    same = yield Act(lambda: iter(loop) if hasattr(loop, "__iter__") else aiter(loop))
    item = yield own.following(same)
    with own.takes_off(own.came(item)):
        yield item.ack()
        yield closed(loop)


@recipe("loop.close")
def close(own):
    loop = loop_of(own, 2)
    item = yield own.following(loop)
    with own.takes_off(own.came(item)):
        yield item.ack()
        yield Act(closed, loop)
    yield from comes_again(own)


@recipe("loop.with")
def left(own):
    loop = loop_of(own, 2)
    item = yield own.following(loop)
    with own.takes_off(own.came(item)):
        yield item.ack()
        yield Act(own.within, loop)
    yield from comes_again(own)


def closed(loop):
    return loop.aclose() if hasattr(loop, "aclose") else loop.close()
