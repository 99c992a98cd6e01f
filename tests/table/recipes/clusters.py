"""Of clusters and folders themselves."""

import snowmelt
from table.account import expect
from table.own import Own
from table.recipes import Act, recipe
from table.recipes.items import closed

LOCAL = ("baton", "counter", "multicast")


@recipe("connect", words="local")
def connect(own):
    cluster = yield Act(own.face.connect, own.place.url)
    expect((yield cluster.ping(b"?")) == b"?", "it is connected")
    yield cluster.close()


@recipe("open", words="local")
def open_folder(own):
    folder = f"{own.folder}-{next(own.numbers)}"
    cluster = yield Act(own.face.open, folder)
    expect((yield cluster.queues()) == [], "it is empty")
    yield cluster.close()


@recipe("Cluster.with", "Cluster.close", words="local")
def close(own):
    cluster = own.face.connect(own.place.url)
    yield cluster.ping(b"?")
    yield Act(cluster.close) if own.row.call == "Cluster.close" else Act(own.within, cluster)
    yield from is_closed(cluster.ping)


@recipe("EmbeddedCluster.with", "EmbeddedCluster.close", words="local")
def close_folder(own):
    folder = f"{own.folder}-{next(own.numbers)}"
    cluster = own.face.open(folder)
    yield Act(cluster.close) if own.row.call.endswith("close") else Act(own.within, cluster)
    yield from is_closed(cluster.queues)
    again = own.face.open(folder)
    yield again.close()


def is_closed(call):
    try:
        yield call()
    except snowmelt.Closed:
        return
    expect(False, "what is closed says so")


@recipe("Cluster.ping")
def ping(own):
    expect((yield Act(own.cluster.ping, b"hello")) == b"hello", "what was sent comes back")


@recipe("Cluster.status")
def status(own):
    told = yield Act(own.cluster.status)
    expect(told.node, "the one that answers has a name")


@recipe("Cluster.statistics")
def statistics(own):
    told = yield Act(own.cluster.statistics)
    expect(told.connections is not None, "it counts its connections")


@recipe("Cluster.forget", words="quiet")
def forget(own):
    yield Act(own.cluster.forget, "nobody")


@recipe("Cluster.drain")
def drain(own):
    told = yield Act(own.cluster.drain, "n1", undo=True)
    expect((told.node, told.drains) == ("n1", False), "a node tells how far it is")


@recipe("Cluster.pools")
def pools(own):
    told = yield Act(own.cluster.pools)
    expect(isinstance(told, list), "pools are listed")


@recipe("Cluster.queues", "EmbeddedCluster.queues")
def queues(own):
    own.fill()
    names = yield Act(own.cluster.queues)
    expect(own.name in names, "a queue that was made is listed")


@recipe("Cluster.overview", "EmbeddedCluster.overview")
def overview(own):
    own.fill()
    told = {one.name: one for one in (yield Act(own.cluster.overview))}
    expect(told[own.name].status is not None, "it is led, and its leader tells of it")


@recipe("Cluster.delete", "EmbeddedCluster.delete")
def delete(own):
    """One of its own: another of that name would be another one."""
    name = f"{own.name}-deleted-{next(own.numbers)}"
    queue = own.cluster.fifo(name)
    yield queue.put(b"one")
    told = yield Act(own.cluster.delete, name)
    expect(told.items == 1, "it tells how many are thrown away: {}", told)
    expect(name not in (yield own.cluster.queues()), "it is there no more")


@recipe("Cluster.backup", "EmbeddedCluster.backup")
def backup(own):
    own.fill()
    told = yield Act(own.cluster.backup, own.name, f"{own.folder}-{next(own.numbers)}.backup")
    expect(told.items >= 1, "what is in the queue is in the file: {}", told)


@recipe("Cluster.restore", "EmbeddedCluster.restore")
def restore(own):
    own.fill()
    number = next(own.numbers)
    file, name = f"{own.folder}-{number}.backup", f"{own.name}-restored-{number}"
    made = yield own.cluster.backup(own.name, file)
    told = yield Act(own.cluster.restore, file, name=name)
    expect(told.items == made.items, "what was in the file is in the queue: {}", told)
    yield own.cluster.delete(name)


@recipe("Cluster.export", "EmbeddedCluster.export")
def export(own):
    (body, *_) = own.fill()
    rows = own.cluster.export(own.name)
    row = yield Act(own.following, rows)
    expect(row.body, "items are read: {}", body)
    yield closed(rows)


@recipe("Cluster.queue", "EmbeddedCluster.queue")
def queue(own):
    own.fill()
    found = yield Act(own.cluster.queue, own.name)
    item = yield found.get()
    with own.takes_off(own.came(item)):
        yield item.ack()


def made(own: Own, what: str):
    return getattr(own.cluster, what)


@recipe("Cluster.fifo", "EmbeddedCluster.fifo", "Cluster.priority", "EmbeddedCluster.priority",
        "Cluster.pool", "EmbeddedCluster.pool", words="local")  # fmt: skip
def make_queue(own):
    what = own.row.call.partition(".")[2]
    queue = yield Act(made(own, what), f"{own.name}-{what}-{next(own.numbers)}")
    yield queue.put(b"one")
    expect(bytes((one := (yield queue.get())).body) == b"one", "what is put comes")
    yield one.ack()
    if what == "pool":
        yield queue.close()


@recipe("Cluster.baton", "EmbeddedCluster.baton", words="local")
def make_baton(own):
    baton = yield Act(own.cluster.baton, own.name)
    held = yield baton.acquire(timeout=5)
    own.turn(held)
    yield held.release()


@recipe("Cluster.counter", "EmbeddedCluster.counter", words="local")
def make_counter(own):
    counter = yield Act(own.cluster.counter, own.name)
    own.account.tell("number", *(yield counter.next()))


@recipe("Cluster.multicast", "EmbeddedCluster.multicast", words="local")
def make_topic(own):
    topic = yield Act(own.cluster.multicast, own.name)
    listener = yield topic.subscribe(timeout=3)
    yield topic.publish(b"one")
    expect((yield own.following(listener)).body == b"one", "what is said is heard")
    yield listener.close()
