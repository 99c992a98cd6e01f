"""Of fifos and priority queues, on nodes and in folders."""

import pytest

import snowmelt
from snowmelt.client.queue.group_steps import BEGINNING
from snowmelt.protocols.queue.api.calls import Share
from table.account import expect
from table.recipes import Act, recipe
from table.recipes.items import closed


@recipe("Fifo.put", "PriorityQueue.put")
def put(own):
    body = own.new()
    with own.puts(body):
        yield Act(own.queue.put, body)


@recipe("Fifo.put_many")
def put_many(own):
    bodies = [own.new() for _ in range(3)]
    with own.puts(*bodies):
        yield Act(own.queue.put_many, bodies)


@recipe("PriorityQueue.put_many")
def put_many_of_one_priority(own):
    bodies = [own.new() for _ in range(3)]
    with own.puts(*bodies):
        yield Act(own.queue.put_many, bodies, priority=1)


@recipe("Fifo.get", "PriorityQueue.get")
def get(own):
    own.fill()
    item = yield Act(own.queue.get)
    with own.takes_off(own.came(item)):
        yield item.ack()


@recipe("Fifo.get_many", "PriorityQueue.get_many")
def get_many(own):
    own.fill(3)
    items = yield Act(own.queue.get_many, 3)
    with own.takes_off(own.came(*items)):
        yield items.ack()


@recipe("Fifo.consume", "PriorityQueue.consume")
def consume(own):
    own.fill()

    def begin(**options):
        loop = own.queue.consume(**{"timeout": 5, "prefetch": 1, **options})
        return loop, own.following(loop)

    loop, item = yield Act(begin)
    item = yield item
    with own.takes_off(own.came(item)):
        yield item.ack()
        yield closed(loop)


@recipe("Fifo.leased", words="local")
def leased(own):
    item = yield Act(own.queue.leased, 1, 0)
    expect(item.token == 1 and item.position == 0, "it is what was named")


@recipe("Fifo.peek", "PriorityQueue.peek")
def peek(own):
    bodies = own.fill(2)
    seen = yield Act(own.queue.peek, 1000)
    expect(set(bodies) <= {bytes(one.body) for one in seen}, "peek shows what waits")


@recipe("Fifo.stats", "PriorityQueue.stats")
def stats(own):
    own.fill()
    told = yield Act(own.queue.stats)
    expect(told.ready >= 1, "stats count what waits")


@recipe("Fifo.consumers", "PriorityQueue.consumers")
def consumers(own):
    own.fill()
    told = yield Act(own.queue.consumers)
    expect(isinstance(told, list), "who uses it is listed")


@recipe("Fifo.schedule", "PriorityQueue.schedule")
def schedule(own):
    name = f"later-{next(own.numbers)}"
    own.fill()
    made = yield Act(own.queue.schedule, name, b"late", every="1d")
    expect(made.next is not None, "it is told when it fires")
    expect(name in scheduled(own), "it is there: {}", name)


@recipe("Fifo.schedules", "PriorityQueue.schedules")
def schedules(own):
    name = f"later-{next(own.numbers)}"
    own.judged.schedule(name, b"late", every="1d")
    told = yield Act(own.queue.schedules)
    expect(name in [one.name for one in told], "all are listed: {}", told)


@recipe("Fifo.unschedule", "PriorityQueue.unschedule")
def unschedule(own):
    name = f"later-{next(own.numbers)}"
    own.judged.schedule(name, b"late", every="1d")
    yield Act(own.queue.unschedule, name)
    expect(name not in scheduled(own), "it is there no more")


def scheduled(own):
    return [one.name for one in own.judged.schedules()]


@recipe("Fifo.purge", "PriorityQueue.purge")
def purge(own):
    with own.takes_off(own.fill(2)):
        erased = yield Act(own.queue.purge)
        expect(type(erased) is int, "purge tells how many: {}", erased)


@recipe("Fifo.redrive", "PriorityQueue.redrive")
def redrive(own):
    own.fill()
    own.judged.get().nack(dead=True)
    back = yield Act(own.queue.redrive)
    expect(type(back) is int, "redrive tells how many: {}", back)


def place_of(own, body):
    return next(one.position for one in own.judged.peek(1000) if one.body == body)


@recipe("Fifo.item", "PriorityQueue.item")
def look_at_one(own):
    [body] = own.fill()
    told = yield Act(own.queue.item, place_of(own, body))
    expect(told.seen is not None and told.seen.body == body, "it is shown: {}", told)


@recipe("Fifo.trace", "PriorityQueue.trace")
def trace_one(own):
    [body] = own.fill()
    told = yield Act(own.queue.trace, place_of(own, body))
    expect(told.now.seen is not None and told.now.seen.body == body, "it is shown: {}", told)


@recipe("Fifo.change_item", "PriorityQueue.change_item")
def change_item(own):
    [body] = own.fill()
    with own.takes_off([body]):
        done = yield Act(own.queue.change_item, place_of(own, body), "dropped")
        expect(type(done) is bool, "it tells whether there was anything to do: {}", done)


@recipe("Fifo.alter", "PriorityQueue.alter")
def alter(own):
    """To what it is: whoever opens it next says the same settings as before."""
    own.fill()
    before = own.judged.stats().settings
    yield Act(own.queue.alter, max_deliveries=before.deliveries_max)
    now = own.judged.stats().settings
    expect(now == before, "only what is named is altered: {}", now)


@recipe("Fifo.create", "PriorityQueue.create")
def create(own):
    """It may be there: then nothing of it changes."""
    yield Act(own.queue.create)
    own.fill()
    expect(own.judged.stats().ready > 0, "what is put into it is there")


@recipe("Fifo.pause", "PriorityQueue.pause")
def pause(own):
    own.fill()
    try:
        yield Act(own.queue.pause)
        with pytest.raises(snowmelt.Empty):
            own.judged.get(timeout=0)
    finally:
        own.judged.resume()


@recipe("Fifo.resume", "PriorityQueue.resume")
def resume(own):
    own.fill()
    own.judged.pause()
    try:
        yield Act(own.queue.resume)
        with own.takes_off(own.came(item := own.judged.get(timeout=1))):
            item.ack()
    finally:
        own.judged.resume()


@recipe("PriorityQueue.last")
def last(own):
    own.fill(2)
    seen = yield Act(own.queue.last, 0)
    expect(seen is not None, "one of two is the last")


@recipe("PriorityQueue.select")
def select(own):
    own.fill(2)
    seen = yield Act(own.queue.select, 1)
    expect(seen is not None, "the first of two is there")


@recipe("PriorityQueue.quantile")
def quantile(own):
    own.fill(2)
    seen = yield Act(own.queue.quantile, 0.5)
    expect(seen is not None, "the middle of two is there")


@recipe("Fifo.value", "PriorityQueue.value", words="local")
def value(own):
    expect((yield Act(own.queue.value, b"body")) == b"body", "a body without a codec is its value")


# --- staged, then published -----------------------------------------------------------------------


@recipe("Fifo.stage", "PriorityQueue.stage")
def stage(own):
    bodies = [own.new() for _ in range(3)]
    receipts = yield Act(own.queue.stage, bodies)
    expect(receipts, "there are receipts")
    with own.puts(*bodies):
        yield own.queue.publish(receipts)


@recipe("Fifo.publish", "PriorityQueue.publish")
def publish(own):
    body = own.new()
    receipts = own.judged.stage([body])
    with own.puts(body):
        yield Act(own.queue.publish, receipts)


@recipe("Fifo.plan", "PriorityQueue.plan")
def plan(own):
    number = next(own.numbers)
    body = own.new()
    receipts = own.judged.stage([body])
    own.judge.fifo(f"{own.name}-plans").put(b"here it is")
    planner = own.cluster.fifo(f"{own.name}-plans", producer="planner")
    share = Share(own.name, tuple(receipts), 1)
    planned = yield Act(planner.plan, [share], sequence=number)
    expect(planned.shares == (share,), "what was written down is told")
    with own.puts(body):
        own.judged.publish(planned.shares[0].receipts)


# --- where items lie, and groups ------------------------------------------------------------------


@recipe("Fifo.survey", "PriorityQueue.survey")
def survey(own):
    own.fill()
    located = yield Act(own.queue.survey)
    expect(located.spans, "what waits lies somewhere")


@recipe("Fifo.read", "PriorityQueue.read")
def read(own):
    own.fill()
    reading = yield Act(own.queue.read, own.judged.survey().spans)
    expect(reading.parts or reading.unread, "what lies somewhere is read, or told as unread")


@recipe("Fifo.parts", "PriorityQueue.parts")
def parts(own):
    own.fill()
    told = yield Act(own.queue.parts)
    expect(
        [one.name for one in told] == [own.queue.name], "a queue without several is its only one"
    )


@recipe("Fifo.groups", "PriorityQueue.groups")
def groups(own):
    own.fill()
    name = own.group()
    own.judged.group(name).advance(items_max=1)
    told = yield Act(own.queue.groups)
    expect(name in [one.name for one in told], "a group that began is told")
    own.judged.group(name).release()


@recipe("Fifo.group", "PriorityQueue.group", words="local")
def group(own):
    made = yield Act(own.queue.group, "loaders")
    expect(made.name == "loaders", "it has its name")


@recipe("Group.advance")
def advance(own):
    own.fill(2)
    group = own.queue.group(own.group())
    given = yield Act(group.advance, items_max=2)
    expect(given.end.count >= 1, "something waits, and is given")
    yield group.release()


def given_to_group(own):
    own.fill(2)
    group = own.queue.group(own.group())
    given = yield group.advance(items_max=2)
    return group, given.end


@recipe("Group.locate")
def locate(own):
    group, end = yield from given_to_group(own)
    located = yield Act(group.locate, BEGINNING, end)
    expect(located.spans, "what was given lies somewhere")
    yield group.release()


@recipe("Group.release")
def release(own):
    group, _ = yield from given_to_group(own)
    back = yield Act(group.release)
    expect(back >= 1, "what it held goes back: {}", back)


# --- steps ----------------------------------------------------------------------------------------


@recipe("Cluster.step", "EmbeddedCluster.step", words="local")
def step(own):
    made = yield Act(own.cluster.step)
    expect(made.waiting == 0, "it has not ended")


@recipe("Step.get")
def get_in_a_step(own):
    own.fill()
    step = own.cluster.step()
    item = yield Act(step.get, own.queue)
    with own.takes_off(own.came(item)):
        yield own.within(step)


@recipe("Step.get_many")
def get_many_in_a_step(own):
    own.fill(3)
    step = own.cluster.step()
    items = yield Act(step.get_many, own.queue, 3)
    with own.takes_off(own.came(*items)):
        yield own.within(step)


@recipe("Step.ack", words="local")
def ack_in_a_step(own):
    own.fill()
    item = yield own.queue.get()
    step = own.cluster.step()
    yield Act(step.ack, item)
    with own.takes_off(own.came(item)):
        yield own.within(step)


@recipe("Step.put", words="local")
def put_in_a_step(own):
    body, step = own.new(), own.cluster.step()
    yield Act(step.put, own.queue, body)
    with own.puts(body):
        yield own.within(step)


@recipe("Step.with")
def a_step(own):
    own.fill()
    body, step = own.new(), own.cluster.step()
    item = yield step.get(own.queue)
    step.put(own.queue, body)
    with own.puts(body), own.takes_off(own.came(item)):
        yield Act(own.within, step)
