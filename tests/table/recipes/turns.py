"""Of batons, counters and topics."""

import snowmelt
from table.account import expect
from table.recipes import Act, recipe


@recipe("Baton.acquire")
def acquire(own):
    held = yield Act(own.baton.acquire)
    held.value = b"%d" % (value := own.turn(held))
    yield held.release()
    own.account.tell("passed", value)


@recipe("Baton.with")
def within(own):
    held = yield Act(own.within, own.baton)
    own.turn(held)


@recipe("Baton.status")
def status(own):
    held = yield own.baton.acquire()
    own.turn(held)
    told = yield Act(own.baton.status)
    expect([one.name for one in told] == [own.name] * len(told) and told, "nodes tell of it")
    yield held.release()


@recipe("Baton.delete")
def delete(own):
    held = yield own.baton.acquire()
    held.value = b"%d" % own.turn(held)
    yield held.release()
    yield Act(own.baton.delete)
    next_one = yield own.baton.acquire()
    own.turn(next_one)
    yield next_one.release()


@recipe("Held.release", "Held.with", "Held.through")
def release(own):
    held = yield own.baton.acquire()
    held.value = b"%d" % (value := own.turn(held))
    match own.row.call:
        case "Held.release":
            yield Act(held.release)
        case "Held.with":
            yield Act(own.within, held)
        case _:
            yield Act(held.through, lambda hold: hold.release())
    own.account.tell("passed", value)
    next_one = yield own.baton.acquire(timeout=2)
    own.turn(next_one)
    yield next_one.release()


@recipe("Held.save")
def save(own):
    held = yield own.baton.acquire()
    value = own.turn(held)
    yield Act(held.save, b"%d" % value)
    own.account.tell("passed", value)
    yield held.release()


@recipe("Held.check", words="local quiet")
def check(own):
    held = yield own.baton.acquire()
    own.turn(held)
    yield Act(held.check)
    yield held.release()


@recipe("Held.wait_lost", words="local endless")
def wait_lost(own):
    held = yield own.baton.acquire()
    own.turn(held)
    lost = yield Act(held.wait_lost, timeout=0.05)
    expect(lost is held.lost, "it says whether it was lost")
    yield held.release()


@recipe("Counter.next")
def following(own):
    taken = yield Act(own.counter.next)
    own.account.tell("number", *taken)


@recipe("Counter.delete")
def begin_anew(own):
    yield own.counter.next()
    yield Act(own.counter.delete)
    taken = yield own.counter.next()
    expect(taken.stop == taken.start + 1, "it counts on")


@recipe("Multicast.publish")
def publish(own):
    topic, body = own.topic, own.new()
    yield Act(topic.publish, body)
    own.account.tell("said", body)


@recipe("Multicast.publish_many")
def publish_many(own):
    topic, bodies = own.topic, [own.new() for _ in range(3)]
    yield Act(topic.publish_many, bodies)
    own.account.tell("said", *bodies)


def says(own):
    """The judge publishes; what comes to a subscription afterwards has it in it."""
    body = own.new()
    own.judge.multicast(own.name).publish(body)
    own.account.tell("said", body)
    return body


def hears_of(own, listener, body):
    """It comes, whoever else says something."""
    while (yield own.following(listener)).body != body:
        pass


@recipe("Multicast.subscribe")
def subscribe(own):
    listener = yield Act(own.topic.subscribe, timeout=3)
    body = says(own)
    yield from hears_of(own, listener, body)
    yield listener.close()


@recipe("Subscription.next")
def hears(own):
    listener = yield own.topic.subscribe(timeout=3)
    body = says(own)
    message = yield Act(own.following, listener)
    expect(message is not None, "something was said")
    if message.body != body:
        yield from hears_of(own, listener, body)
    yield listener.close()


@recipe("Subscription.for", words="local")
def iterated(own):
    listener = yield own.topic.subscribe(timeout=3)
    same = yield Act(lambda: iter(listener) if hasattr(listener, "__iter__") else aiter(listener))
    body = says(own)
    yield from hears_of(own, same, body)
    yield listener.close()


@recipe("Subscription.close", "Subscription.with", words="local")
def close(own):
    listener = yield own.topic.subscribe(timeout=0.2)
    yield Act(listener.close) if own.row.call.endswith("close") else Act(own.within, listener)
    says(own)
    try:
        yield own.following(listener)
    except (StopIteration, StopAsyncIteration, snowmelt.SnowmeltError):
        return
    expect(False, "a subscription that is closed hears nothing")
