"""What worlds did not ask for until November 2026, and what engines answer to it.

Method: small worlds in which nothing fails (`quiet.py`); each verb is a script, and each script is
judged by rules that know no excuse (`strict.py`). A new engine has to stand them all.
"""

import pytest
from quiet import ANY, QUEUE, RANKED, Quiet, pause

from snowmelt.client.leases.steps import ReturnOptions
from snowmelt.core.instant import SECOND, later, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.membership import MembershipSettings
from snowmelt_world.families import membership
from snowmelt_world.network import LinkStyle

N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")


def fill(client, name, count, priorities=3):
    """One call after the other."""
    for number in range(count):
        yield from client.put([f"{name}.{number}"], [number % priorities], 10.0)


def take(client, count, *, ack):
    for _ in range(count):
        delivered = yield from client.get()
        if delivered is not None and ack:
            yield from client.ack(delivered)


def bury(client, count):
    """So many die: nobody is to have them again."""
    for _ in range(count):
        delivered = yield from client.get()
        yield from client.steps.give_back(delivered, None, ReturnOptions(0.0, "it failed", True))


def told(client, steps):
    """What a call of a person returns."""
    [found] = client.quiet.live((client, steps))
    return found


def drained(quiet):
    last = quiet.client("last", N1)
    quiet.live((last, last.drain()), within=300)
    return quiet.judge()


# --- who comes and goes in order ------------------------------------------------------------------


def a_node_joins_and_leaves(family, seed, count=1):
    """Or is there from the beginning, and leaves."""
    quiet = Quiet(family, seed, count, replicas=1)
    client = quiet.client("c", N1)
    quiet.live((client, fill(client, "a", 40)))
    quiet.live((client, take(client, 15, ack=True)))
    if count == 1:
        quiet.join(N2)
    quiet.rest(20)
    quiet.live((client, fill(client, "b", 40)))
    quiet.live((client, take(client, 5, ack=False)))
    quiet.leave(N2)
    quiet.rest(20)
    return drained(quiet)


def a_node_leaves_that_was_there(family, seed):
    return a_node_joins_and_leaves(family, seed, count=2)


def a_node_begins_again_and_again(family, seed):
    """Leases that have nothing to do with it are over in time."""
    quiet = Quiet(family, seed, 3, replicas=3, lease=seconds(5))
    one, other = quiet.client("a", N1), quiet.client("b", N1)
    quiet.live((one, one.put([f"a{number}" for number in range(10)], None, 5.0)))
    quiet.live((one, take(one, 10, ack=False)))

    def falls():
        quiet.world.stop(N2)
        quiet.world.at(later(quiet.world.now, seconds(1)), quiet.world.wake, N2)
        quiet.world.at(later(quiet.world.now, seconds(4)), falls)

    falls()
    begun = quiet.world.now

    def again():
        while quiet.world.now < begun + seconds(20):
            delivered = yield from other.get(10, 5.0)
            if delivered is not None:
                return True
        return False

    [came] = quiet.live((other, again()))
    return [] if came else ["a lease of 5 s is not over after 20 s, as another node falls"]


def a_silent_node_holds_up_nobody_for_long(family, seed):
    """It stands still, and others watch each other as closely as ships."""
    slow, longest = [], seconds(5)
    for silent in (N2, N3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(membership, "SETTINGS", MembershipSettings())
            quiet = Quiet(family, seed, 3, replicas=3)
        client = quiet.client("a", N1)
        quiet.live((client, client.put(["first"])))
        quiet.rest(5)
        quiet.world.slots[silent].paused_until = later(quiet.world.now, seconds(40))
        begun = quiet.world.now
        quiet.live((client, client.put(["second"], None, 30.0)))
        took = max(one.until - one.called for one in quiet.operations if one.called >= begun)
        slow += [f"a put takes {took / SECOND:.1f} s"] if took > longest else []
    return slow


def what_is_given_back_is_not_said_to_be_lost(family, seed):
    """While a node falls and comes back, and leases last much longer."""
    quiet = Quiet(family, seed, 3, replicas=3, lease=seconds(60), deliveries_max=100_000)
    clients = [quiet.client(f"c{number}", N1) for number in range(3)]
    quiet.live((clients[0], fill(clients[0], "a", 30)))
    end = later(quiet.world.now, seconds(18))

    def works(client):
        while client.now < end:
            delivered = yield from client.get(2, 1.0)
            if delivered is not None:
                yield pause(client.some(milliseconds(400)))
                reason = "" if client.chance.random() < 0.7 else "it failed"
                yield from client.back(delivered, reason)

    def falls():
        if quiet.world.now < end:
            quiet.world.stop(N3)
            quiet.world.at(later(quiet.world.now, seconds(14)), quiet.world.wake, N3)
            quiet.world.at(later(quiet.world.now, seconds(28)), falls)

    quiet.world.at(later(quiet.world.now, seconds(2)), falls)
    quiet.live(*[(one, works(one)) for one in clients], within=300)
    return quiet.judge()


def a_get_that_nobody_waits_for_takes_nothing(family, seed):
    """It comes to a node that sleeps for longer than it waits."""
    quiet = Quiet(family, seed, 1, replicas=1, lease=seconds(60))
    gone, other = quiet.client("a"), quiet.client("b")
    quiet.live((gone, gone.put(["item"])))
    quiet.world.slots[N1].paused_until = later(quiet.world.now, seconds(5))
    quiet.live((gone, gone.get(1, 1.0)))
    quiet.rest(8)
    if told(other, other.get(1, 2.0)) is None:
        return ["an item is leased to nobody, and others get nothing"]
    return []


# --- order ----------------------------------------------------------------------------------------


def what_is_given_back_is_seen_from_another_node(family, seed):
    """While somebody puts at the node where it is given back, which is told so."""
    quiet = Quiet(family, seed, 3, LinkStyle(), replicas=1)
    one, other, busy = quiet.client("a", N3), quiet.client("b", N1), quiet.client("z", N3)
    quiet.live((one, fill(one, "a", 12)))
    over = []

    def puts():
        while not over and len(quiet.operations) < 2_000:
            yield from busy.put([f"z{len(quiet.operations)}"], [3])

    def story():
        for _ in range(30):
            for client in (one, other):
                delivered = yield client, client.get()
                yield client, client.back(delivered)
        over.append(True)

    busy.run(puts())
    quiet.tell(story())
    return quiet.judge()


def what_is_put_is_seen_from_another_node(family, seed, *, staged=False):
    """The same of what is put, or published, while others put at that node."""
    quiet = Quiet(family, seed, 3, LinkStyle(), replicas=1)
    one, other, busy = quiet.client("a", N3), quiet.client("b", N1), quiet.client("z", N3)
    over = []

    def puts():
        while not over and len(quiet.operations) < 2_000:
            yield from busy.put([f"z{len(quiet.operations)}"], [3])

    def story():
        for number in range(30):
            puts_one = one.put_staged if staged else one.put
            yield one, puts_one([f"a{number}"])
            delivered = yield other, other.get()
            yield other, other.ack(delivered)
        over.append(True)

    busy.run(puts())
    quiet.tell(story())
    return quiet.judge()


def what_is_published_is_seen_from_another_node(family, seed):
    return what_is_put_is_seen_from_another_node(family, seed, staged=True)


def a_get_comes_after_its_own_clients_put(family, seed):
    """As tasks of one program ask: a put is on its way, another gathers, and a get is asked."""
    quiet = Quiet(family, seed, 1, replicas=1)
    client = quiet.client("a")
    quiet.live((client, client.put([f"old{number}" for number in range(5)], [2] * 5)))
    over = []
    for steps in (client.put_one("first", 3), client.put_one("urgent"), client.get_one()):
        client.run(steps, over.append)
        quiet.world.run(later(quiet.world.now, milliseconds(0.1)), 1_000_000)
    quiet.rest(5)
    assert len(over) == 3
    return quiet.judge()


def a_large_call_is_one_place(family, seed):
    quiet = Quiet(family, seed, 3, replicas=1, lease=seconds(600))
    large, last = quiet.client("a", N3), quiet.client("last")
    small = [quiet.client(f"b{number}") for number in range(4)]
    over = []

    def puts_all():
        yield pause(milliseconds(3))
        yield from large.put([f"a{number}" for number in range(9_000)], None, 30.0)
        over.append(True)

    def puts(client):
        while not over:
            yield pause(client.some(milliseconds(0.3)))
            yield from client.put([f"{client.name}.{client.now}"])

    quiet.live((large, puts_all()), *[(one, puts(one)) for one in small])
    while (told(last, last.get(1_000))) is not None:
        pass
    return quiet.judge()


# --- bounds ---------------------------------------------------------------------------------------


def a_dead_producer_takes_no_room(family, seed):
    """It waited for more room than there is after its end."""
    quiet = Quiet(family, seed, 1, replicas=1, items_max=10)
    first, dead, taker, late = [quiet.client(name) for name in "abcd"]
    quiet.live((first, first.put([f"a{number}" for number in range(10)])))
    dead.run(dead.put([f"b{number}" for number in range(10)], None, 600.0))
    quiet.rest(1)
    quiet.kill(dead)
    quiet.rest(1)
    quiet.live((taker, take(taker, 5, ack=True)))
    quiet.live((late, late.put(["late"], None, 30.0)))
    return quiet.judge(bound=10)


def the_dead_of_one_queue_hold_up_no_other(family, seed):
    """They waited for room in a full queue, with as much as may go through one node."""
    quiet = Quiet(family, seed, 1, limits={"room": 20_000}, replicas=1, items_max=1)
    first, late = quiet.client("a"), quiet.client("b", queue="q2")
    quiet.live((first, first.put(["a"])))
    dead = [quiet.client(f"d{number}") for number in range(4)]
    for one in dead:
        one.run(one.put([f"{one.name}{'.' * 6_000}"], None, 600.0))
    quiet.rest(1)
    for one in dead:
        quiet.kill(one)
    quiet.rest(1)
    begun = quiet.world.now
    is_in = told(late, late.put([f"late{'.' * 6_000}"], None, 20.0))
    waited = (quiet.world.now - begun) / SECOND
    return [] if is_in and waited < 3 else [f"it is in: {is_in}, after {waited:.1f} s"]


def a_put_is_refused_only_where_there_was_no_room(family, seed):
    quiet = Quiet(family, seed, 3, replicas=1, items_max=10)
    putters = [quiet.client(f"p{number}", quiet.nodes[number % 3]) for number in range(4)]
    taker, over = quiet.client("g", N2), []

    def puts(client):
        for number in range(60):
            yield from client.put([f"{client.name}.{number}"])
            yield pause(client.some(milliseconds(2)))

    def takes():
        while not over:
            delivered = yield from taker.get()
            if delivered is None:
                yield pause(milliseconds(1))
            else:
                yield from taker.ack(delivered)

    taker.run(takes())
    quiet.live(*[(one, puts(one)) for one in putters])
    over.append(True)
    quiet.rest(2)
    return quiet.judge(bound=10)


def _passes(family, seed, **settings):
    """How long 100 items take through it, one at a time."""
    quiet = Quiet(family, seed, 3, replicas=3, **settings)
    putter, taker, begun, over = quiet.client("a"), quiet.client("b"), quiet.world.now, []

    def takes():
        while len(over) < 100:
            delivered = yield from taker.get(1, 5.0)
            if delivered is not None:
                yield from taker.ack(delivered)
                over.append(quiet.world.now - begun)

    quiet.live((putter, fill(putter, "a", 100)), (taker, takes()))
    return over[-1] / SECOND


def a_bounded_queue_is_half_as_fast(family, seed):
    bounded, free = _passes(family, seed, items_max=10), _passes(family, seed)
    return [] if bounded <= 2 * free else [f"{bounded} s with a bound, and {free} s without one"]


def the_dead_take_no_room(family, seed, **settings):
    quiet = Quiet(family, seed, 1, replicas=1, **settings or {"items_max": 10})
    client = quiet.client("a")
    quiet.live((client, client.put([f"a{number}" for number in range(10)])))
    quiet.live((client, bury(client, 10)))
    is_in = told(client, client.put([f"b{number}" for number in range(10)]))
    return [] if is_in else ["it is full of the dead"]


def the_dead_take_no_bytes(family, seed):
    return the_dead_take_no_room(family, seed, bytes_max=35)


def redriving_keeps_the_bound(family, seed):
    quiet = Quiet(family, seed, 1, replicas=1, items_max=10)
    client = quiet.client("a")
    quiet.live((client, client.put([f"a{number}" for number in range(10)])))
    quiet.live((client, bury(client, 10)))
    quiet.live((client, client.put([f"b{number}" for number in range(10)])))
    told(client, client.redrive())
    ready = told(client, client.steps.stats(5.0)).ready
    return [f"{ready} are in it, and 10 may be"] if ready > 10 else []


# --- what operators ask ---------------------------------------------------------------------------


def a_slow_redrive_goes_on_after_a_restart(family, seed):
    """Of 20, two a second."""
    quiet = Quiet(family, seed, 1, replicas=1)
    client = quiet.client("a")
    quiet.live((client, client.put([f"a{number}" for number in range(20)])))
    quiet.live((client, bury(client, 20)))
    told(client, client.redrive(2))
    quiet.rest(3)
    quiet.world.stop(N1)
    quiet.rest(1)
    quiet.world.wake(N1)
    quiet.rest(30)
    dead = told(client, client.steps.stats(5.0)).dead
    return [f"{dead} of 20 are dead still"] if dead else []


def a_purge_takes_what_was_there(family, seed):
    """Beside puts: what it counted is gone, and nothing else is."""
    quiet = Quiet(family, seed, 3, replicas=1)
    client, putter = quiet.client("a"), quiet.client("p", N3)
    purged = []

    def purges():
        for _ in range(20):
            count = yield from client.steps.purge(False, False, 5.0)
            purged.append(count)

    quiet.live((client, client.put(["first"])))
    quiet.live((client, purges()), (putter, fill(putter, "a", 60)))
    last = quiet.client("last")
    quiet.live((last, last.drain()))
    got = sum(len(one.values) for one in quiet.operations if one.process == "last") // 2
    return [] if got + sum(purged) == 61 else [f"{purged} were purged of 61, and {got} are left"]


def what_was_purged_is_not_done(family, seed):
    quiet = Quiet(family, seed, 1, replicas=1)
    client = quiet.client("a")
    quiet.live((client, client.put([f"a{number}" for number in range(10)])))
    told(client, client.steps.purge(False, False, 5.0))
    done = told(client, client.steps.stats(5.0)).done
    return [f"{done} are done, and none was acknowledged"] if done else []


# --- the engines ------------------------------------------------------------------------------

ENGINES = {"queue": QUEUE, "queue with priorities": RANKED, "queue of any": ANY}
ASKED = (
    a_node_joins_and_leaves,
    a_node_leaves_that_was_there,
    a_node_begins_again_and_again,
    a_silent_node_holds_up_nobody_for_long,
    what_is_given_back_is_not_said_to_be_lost,
    a_get_that_nobody_waits_for_takes_nothing,
    what_is_given_back_is_seen_from_another_node,
    what_is_put_is_seen_from_another_node,
    a_get_comes_after_its_own_clients_put,
    a_large_call_is_one_place,
    a_dead_producer_takes_no_room,
    the_dead_of_one_queue_hold_up_no_other,
    a_put_is_refused_only_where_there_was_no_room,
    a_bounded_queue_is_half_as_fast,
    the_dead_take_no_room,
    a_purge_takes_what_was_there,
    what_is_published_is_seen_from_another_node,
    the_dead_take_no_bytes,
    redriving_keeps_the_bound,
    a_slow_redrive_goes_on_after_a_restart,
    what_was_purged_is_not_done,
)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("asks", ASKED, ids=lambda one: one.__name__)
def test_an_engine_stands_it(asks, name):
    found = asks(ENGINES[name], 0)
    assert not found, "; ".join(found)
