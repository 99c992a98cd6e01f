"""A world in which nothing fails, and one queue of any family in it, used by shipped steps.

A family is a `Family` here: how its process is made, and how a program opens a queue of it. Scripts
are generators over `Client`, which writes down a history. What is judged needs no ledger.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
from strict import Strict

from snowmelt.client.coalescing.joint_gets import Gets
from snowmelt.client.coalescing.joint_puts import Puts
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import items_of
from snowmelt.client.leases.steps import ReturnOptions
from snowmelt.client.priority.steps import RankedSteps
from snowmelt.client.queue.bodies import parcels
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.client.queue.staging_steps import publish, stage
from snowmelt.core.errors import Full, LeaseLost, SnowmeltError
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announced
from snowmelt.protocols.calling import Gone
from snowmelt.protocols.membership import Depart, Departed
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.limits import QueueLimits
from snowmelt_world.check.conservation import check_conservation
from snowmelt_world.check.history import Ended, History, Kind, Operation
from snowmelt_world.check.verdict import Invalid
from snowmelt_world.families import queue
from snowmelt_world.families.fifo_together import Caller, Joint
from snowmelt_world.families.membership import address
from snowmelt_world.families.shipped import Program, pause
from snowmelt_world.judge.values import shortest
from snowmelt_world.world import Observer, World

LEASE = seconds(20)
WEIGHT = 1 << 20
EMPTY = 4
"""So many gets in a row find nothing where there is nothing."""


class Family(msgspec.Struct, frozen=True):
    process: Callable[..., Any]
    """Of a node, its founder, its chance; with `room`, so many bytes of puts go through it."""
    opened: Callable[..., Any]
    """The steps of a client, for a queue with settings."""
    ranked: bool
    """Whether items have priorities, which steps are told with each body."""


def fifo_opened(client, queue, **settings):
    settings = QueueSettings(**{"lease": LEASE, **settings})
    return FifoSteps(queue, settings, ProducerSequence(None, names=client.new_name), client.chance)


def ranked_opened(client, queue, **settings):
    """With four priorities."""
    settings = QueueSettings(**{"lease": LEASE, "priorities": 4, **settings})
    numbers = ProducerSequence(None, names=client.new_name)
    return RankedSteps(queue, settings, numbers, client.chance)


def queue_process(node, founder, chance, room=256 << 20):
    limits = QueueLimits(waiting_bytes=room)
    return queue.process(node, founder, chance, limits)


QUEUE = Family(queue_process, fifo_opened, ranked=False)
RANKED = Family(queue_process, ranked_opened, ranked=True)
ANY = Family(queue_process, partial(ranked_opened, priorities=0), ranked=True)


class Client(Program):
    """One process that uses the queue, asking these nodes."""

    def __init__(self, quiet, name, nodes=None, queue="q1"):
        chance = Random(f"{quiet.seed}/{name}")
        super().__init__(quiet.world, name, quiet.nodes if nodes is None else nodes, chance)
        self.quiet = quiet
        self._names = 0
        self.ranks = {}
        """Of each body that it puts, its priority."""
        self.steps = quiet.family.opened(self, queue, **quiet.settings)
        self.stage = SimpleNamespace(world=quiet.world)
        self._gets = Gets(self.steps)
        self._lines = Joint(self, Puts(self.steps.put)), Joint(self, self._gets)
        quiet.clients[self.name] = self

    def run(self, steps, done=bool):
        return super().run(steps, done)

    def query(self, step, told):
        """Makes a call of steps, or waits for what a ticket brings."""
        if isinstance(step.body, Caller):
            step.body.wait(told)
        else:
            super().query(step, told)

    def new_name(self):
        self._names += 1
        return f"client.{self.name}-{self._names}"

    def put(self, values, priorities=None, patience=0.0):
        """One call; whether they are in."""
        own = priorities or [0] * len(values)
        called, ended = self.now, Ended.UNKNOWN
        note = self._noted(Kind.PUT, values, called, Ended.UNKNOWN, priorities=self._ranks(own))
        try:
            yield from self._put([value.encode() for value in values], own, patience)
            ended = Ended.SUCCEEDED
        except Full:
            ended = Ended.FAILED
        except SnowmeltError:
            pass
        self.quiet.renote(note, ended, self.now)
        return ended is Ended.SUCCEEDED

    def put_one(self, value, priority=0):
        """As a task or a thread of many does: it goes with others."""
        note = self._noted(
            Kind.PUT, (value,), self.now, Ended.UNKNOWN, priorities=self._ranks([priority])
        )
        own = priority if self.quiet.family.ranked else None
        self.ranks[value.encode()] = priority
        yield from self._lines[0].ask(self.steps.one(value.encode(), own, None, 0.0, 1.0))
        self.quiet.renote(note, Ended.SUCCEEDED, self.now)

    def get_one(self):
        """The same for a get."""
        note = self._noted(Kind.GET, (), self.now, Ended.UNKNOWN)
        if self.quiet.family.ranked:
            self._lines[0].send()
        delivered = yield from self._lines[1].ask(self._gets.asked(1, WEIGHT, 1.0))
        values = () if delivered is None else values_of(delivered)
        self.quiet.renote(note, Ended.SUCCEEDED, self.now, values=values)
        return delivered

    def put_staged(self, values, priorities=None):
        """Staged first, and in when that is published."""
        own = priorities or [0] * len(values)
        rows = list(zip(own, [value.encode() for value in values], strict=True))
        self.ranks.update({body: rank for rank, body in rows})
        if isinstance(self.steps, RankedSteps):
            staged = self.steps.stage(rows, None, None, 0.0, 3_600.0, 5.0)
            publishes = publish(self.steps, self.steps.producer, (yield from staged), None, 5.0)
        else:
            bodies, maker = [body for _, body in rows], self.steps.producer
            staged = stage(self.steps, maker, parcels(bodies), None, 0.0, 3_600.0, 5.0)
            publishes = publish(self.steps, maker, (yield from staged), None, 5.0)
        note = self._noted(Kind.PUT, values, self.now, Ended.UNKNOWN, priorities=self._ranks(own))
        yield from publishes
        self.quiet.renote(note, Ended.SUCCEEDED, self.now)

    def _put(self, bodies, own, patience):
        self.ranks.update(zip(bodies, own, strict=True))
        if self.quiet.family.ranked:
            pairs = list(zip(own, bodies, strict=True))
            return self.steps.put_ranked(pairs, None, None, 0.0, patience, None)
        return self.steps.put_many(bodies, None, 0.0, patience, None)

    def get(self, count=1, patience=0.0):
        called = self.now
        note = self._noted(Kind.GET, (), called, Ended.UNKNOWN)
        try:
            delivered, _ = yield from self.steps.lease(count, WEIGHT, Wait(patience))
        except SnowmeltError:
            return None
        if delivered is None and self.steps.away:
            return None  # it is told that some wait for nodes that are away
        values = () if delivered is None else values_of(delivered)
        held = called + shortest(self.quiet.lease) if values else None
        self.quiet.renote(note, Ended.SUCCEEDED, self.now, values=values, held=held)
        return delivered

    def ack(self, delivered):
        steps = self.steps.ack(delivered, None)
        return self._settles(Kind.ACK, delivered, steps)

    def back(self, delivered, reason=""):
        steps = self.steps.give_back(delivered, None, ReturnOptions(0.0, reason))
        return self._settles(Kind.BACK, delivered, steps)

    def _ranks(self, own):
        return tuple(own) if self.quiet.family.ranked else ()

    def _settles(self, kind, delivered, steps):
        note = self._noted(kind, values_of(delivered), self.now, Ended.UNKNOWN)
        try:
            yield from steps
        except LeaseLost:
            self.quiet.renote(note, Ended.FAILED, self.now)
        except SnowmeltError:
            pass
        else:
            self.quiet.renote(note, Ended.SUCCEEDED, self.now)

    def redrive(self, per_second=0):
        return self.steps.redrive(per_second, 5.0)

    def drain(self, count=20):
        """Takes and acknowledges all there is; then it is drained."""
        empty = 0
        while empty < EMPTY:
            delivered = yield from self.get(count, 1.0)
            empty = empty + 1 if delivered is None else 0
            if delivered is not None:
                yield from self.ack(delivered)
        self._noted(Kind.DRAIN, (), self.now, Ended.SUCCEEDED, returned=self.now)

    def _noted(self, kind, values, called, ended, returned=None, **more):
        operation = Operation(str(self.name), kind, tuple(values), called, returned, ended, **more)
        self.quiet.operations.append(operation)
        return len(self.quiet.operations) - 1


class Quiet(Observer):
    def __init__(self, family, seed, count=1, style=None, limits=None, **settings):
        self.limits = limits or {}
        self.family, self.seed, self.settings = family, seed, settings
        self.lease = settings.get("lease", LEASE)
        self.world, self.clients, self.operations = World(seed, style, observer=self), {}, []
        self.nodes = [NodeId(f"n{number}") for number in range(1, count + 1)]
        self.left = {}
        for node in self.nodes:
            self.join(node)
        self.rest(3)

    def join(self, node):
        def build(chance):
            return self.family.process(node, NodeId("n1"), chance, **self.limits)

        self.world.add(node, build, address(node))
        self.world.start(node)

    def leave(self, node):
        """Its operator asks it to leave in order, and stops it when it says so."""
        self.world.request(node, OperationId(node, 1), Depart())

    def replied(self, at, node, effect):
        if node in self.clients:
            self.clients[node].answered(effect.operation, effect.message, at)
        elif isinstance(effect.message, Departed):
            self.left[node] = at
            self.world.at(at, self.world.stop, node)

    def client(self, name, *nodes, queue="q1"):
        return Client(self, name, [NodeId(node) for node in nodes] or self.nodes, queue)

    def rest(self, time):
        self.world.run(Instant(self.world.now + seconds(time)), 2_000_000)

    def live(self, *scripts, within=120):
        """All of these at once, to their end."""
        over = []
        for client, steps in scripts:
            client.run(steps, over.append)
        for _ in range(within * 10):
            if len(over) == len(scripts):
                break
            self.rest(0.1)
        assert not any(isinstance(one, Exception) for one in over), over
        return over

    def tell(self, story):
        """One step after another, of several clients: each begins when the last is answered."""
        over = []

        def go(answer):
            try:
                client, steps = story.send(answer)
            except StopIteration:
                over.append(True)
                return
            soon = Instant(self.world.now + 1)  # so that a history shows which was first
            self.world.at(soon, client.run, steps, go)

        go(None)
        for _ in range(6_000):
            if over:
                return
            self.rest(0.1)
        raise AssertionError("the story has no end")

    def kill(self, client):
        """Its process is gone, and the nodes that had its connection hear so."""
        client.die()
        for node in self.nodes:
            if self.world.slots[node].node is not None:
                self.world.give(node, Announced(Gone(client.name)))

    def renote(self, note, ended, at, **more):
        returned = None if ended is Ended.UNKNOWN else at
        old = self.operations[note]
        changed = {"ended": ended, "returned": returned, **more}
        self.operations[note] = msgspec.structs.replace(old, **changed)

    @property
    def history(self):
        return History.of(self.operations)

    def judge(self, bound=0):
        """What is wrong, in words."""
        verdict = check_conservation(self.history)
        found = Strict(self.history).judge(bound)
        return [*found, str(verdict)] if isinstance(verdict, Invalid) else found


def values_of(delivered):
    return tuple(body.decode() for _, body, _ in items_of(delivered.parts))


__all__ = ["ANY", "QUEUE", "RANKED", "Quiet", "pause", "values_of"]
