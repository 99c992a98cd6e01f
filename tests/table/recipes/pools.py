"""Of pools: the judge has a part of its own, which takes and gives as this process' does."""

import snowmelt
from table.account import expect
from table.own import Own
from table.recipes import Act, recipe
from table.recipes.items import closed


@recipe("Pool.put")
def put(own):
    body = own.new()
    with own.puts(body):
        yield Act(own.queue.put, body)


@recipe("Pool.put_many")
def put_many(own):
    bodies = [own.new() for _ in range(3)]
    with own.puts(*bodies):
        yield Act(own.queue.put_many, bodies)


@recipe("Pool.room")
def room(own):
    body = own.new()
    whole = len(body)

    def write(array):
        with array.cast("B") as plain:  # of whatever shape
            size = min(len(plain), whole)
            plain[:size] = body[:size]

    def make(shape=whole, dtype="B", **options):
        return own.within(own.queue.room(shape, dtype, **options), write)

    with own.puts(body):
        yield Act(make)


@recipe("Pool.get")
def get(own):
    own.fill()
    one = yield Act(own.queue.get)
    with own.takes_off(own.came(one)):
        yield one.ack()


@recipe("Pool.get_many")
def get_many(own):
    own.fill(3)
    several = yield Act(own.queue.get_many, 3)
    with own.takes_off(own.came(*several)):
        yield several.ack()


@recipe("Pool.consume", "Pool.for")
def consume(own):
    own.fill()

    def begin(**options):
        if own.row.call == "Pool.for":
            loop = iter(own.queue) if hasattr(own.queue, "__iter__") else aiter(own.queue)
        else:
            loop = own.queue.consume(**{"timeout": 5, "prefetch": 0, **options})
        return loop, own.following(loop)

    loop, one = yield Act(begin)
    one = yield one
    with own.takes_off(own.came(one)):
        yield one.ack()
        yield closed(loop)


@recipe("Pool.await_room", words="quiet")
def await_room(own):
    yield Act(own.queue.await_room)
    body = own.new()
    with own.puts(body):
        yield own.queue.put(body)


@recipe("Pool.stats")
def stats(own):
    body = own.new()
    with own.puts(body):
        yield own.queue.put(body)
    told = yield Act(own.queue.stats)
    expect(told.put >= 1, "stats count what was put")


@recipe("Pool.close", "Pool.with")
def close(own):
    part = own.queue_of(own.cluster)
    body = own.new()
    with own.puts(body):
        yield part.put(body)
    own.fill()  # who puts, takes over
    own.leaving.append(part)
    try:
        yield Act(part.close) if own.row.call == "Pool.close" else Act(own.within, part)
    except snowmelt.DataLost:
        own.account.tell("doing", body)  # nobody took it in the time, and it is said
        raise
    try:
        yield part.put(b"late")
    except snowmelt.Closed:
        return
    expect(False, "a part that is closed takes nothing")


# --- what was got ---------------------------------------------------------------------------------


def one_of(own):
    own.fill()
    one = yield own.queue.get()
    own.came(one)
    return one


def several_of(own):
    own.fill(2)
    several = yield own.queue.get_many(2)
    own.came(*several)
    return several


@recipe("Object.ack", "Object.with")
def ack(own):
    one = yield from one_of(own)
    with own.takes_off([bytes(one.body)]):
        yield Act(one.ack) if own.row.call == "Object.ack" else Act(own.within, one)


@recipe("Objects.ack", "Objects.with")
def ack_several(own):
    several = yield from several_of(own)
    with own.takes_off([bytes(one.body) for one in several]):
        yield Act(several.ack) if own.row.call == "Objects.ack" else Act(own.within, several)


def comes_again(own: Own):
    one = yield own.queue.get(timeout=1)
    with own.takes_off(own.came(one)):
        yield one.ack()


@recipe("Object.nack")
def nack(own):
    one = yield from one_of(own)
    yield Act(one.nack)
    yield from comes_again(own)


@recipe("Objects.nack")
def nack_several(own):
    several = yield from several_of(own)
    yield Act(several.nack)
    yield from comes_again(own)


@recipe("Objects.for", words="local")
def each(own):
    several = yield from several_of(own)
    listed = yield Act(list, several)
    with own.takes_off([bytes(one.body) for one in listed]):
        yield several.ack()


# --- loops: an object is done when the next is asked for ------------------------------------------


def looping(own, count=1):
    own.fill(count)
    return own.queue.consume(timeout=3, prefetch=0)


@recipe("pool: loop.next")
def following(own):
    loop = looping(own)
    one = yield Act(own.following, loop)
    with own.takes_off(own.came(one)):
        yield one.ack()
        yield closed(loop)


@recipe("pool: loop.for", words="local")
def iterated(own):
    loop = looping(own)
    same = yield Act(lambda: iter(loop) if hasattr(loop, "__iter__") else aiter(loop))
    one = yield own.following(same)
    with own.takes_off(own.came(one)):
        yield one.ack()
        yield closed(loop)


@recipe("pool: loop.close", "pool: loop.with")
def close_loop(own):
    loop = looping(own)
    own.came((yield own.following(loop)))
    yield Act(closed, loop) if own.row.call == "loop.close" else Act(own.within, loop)
    yield from comes_again(own)
