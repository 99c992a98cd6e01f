"""The steps of a fifo, against a script: what is asked, of whom, and what comes of the answers."""

import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from snowmelt.client.connection.steps import run
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.fetching import Fetching
from snowmelt.client.leases.looping import LoopDeadline, PrefetchSize
from snowmelt.client.leases.renewals import LeaseRenewals
from snowmelt.client.leases.steps import LeaseUpdate, portions
from snowmelt.client.queue.bodies import CALL_BYTES, CALL_ITEMS
from snowmelt.client.queue.options import ProducerSequence, queue_settings
from snowmelt.core.batch import Batch
from snowmelt.core.errors import (
    LEASE_ENDED,
    BadOption,
    Closed,
    DiskFull,
    Empty,
    Full,
    LeaseLost,
    NoSuchQueue,
    OutcomeUnknown,
    TooLarge,
    Unavailable,
    Unreachable,
)
from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.queue.api.calls import (
    PIECES_MAX,
    Fetch,
    Fetched,
    Get,
    ItemRun,
    Leased,
    NodeAddress,
    Open,
    Opened,
    Put,
    PutDone,
    Settle,
    Settled,
    Span,
)
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.runtime.clock import shown, steady_now

MASTER = NodeAddress(NodeId("n1"), Address("n1", 1))
STORE = NodeAddress(NodeId("n2"), Address("n2", 2))
GRANT = Opened("orders", QueueSettings(), MASTER, STORE)
LEASE = seconds(30)
Answer = object | Exception | Callable[[Any], object]


class Script:
    """Answers call after call as written; keeps what was asked, and of whom."""

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[Any] = []
        self.targets: list[str | None] = []
        self.times: list[float] = []
        self._answers = list(answers)

    def call(self, body: Any, timeout: float, target: Any = None, weight: int = 0) -> Any:
        assert timeout >= 0
        assert weight >= 0
        self.asked.append(body)
        self.targets.append(target)
        self.times.append(timeout)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer(body) if callable(answer) else answer


def fifo(*answers: Answer, **named: Any) -> tuple[Fifo, Script]:
    script = Script(*answers)
    return Fifo(script, FifoSteps("orders", None, ProducerSequence(**named))), script


def part(start: int, *bodies: bytes, **more: Any) -> ItemRun:
    batch = Batch.of(bodies)
    return ItemRun(start, bytes(batch.offsets), bytes(batch.blob), **more)


def leased(token: int, *parts: ItemRun, spans: tuple[Span, ...] = (), refused: str = "") -> Leased:
    return Leased(token, parts, spans, LEASE, refused)


def put_done(start: int) -> Callable[[Put], PutDone]:
    return lambda put: PutDone(start, start + len(put.offsets) // 4 - 1, 1, True)


# --- putting --------------------------------------------------------------------------------------


def test_what_is_large_is_put_at_the_door_where_there_is_one():
    settings = QueueSettings(inline_max=10)
    opened = Opened("orders", settings, MASTER, MASTER, door=STORE)
    orders, script = fifo(opened, put_done(0), put_done(1))
    orders.put(b"0123456789")
    orders.put(b"0123456789a")
    assert script.targets == [None, "n1:1", "n2:2"]


def test_the_queue_is_opened_once_and_items_are_put_at_its_store():
    orders, script = fifo(GRANT, put_done(0), put_done(1))
    assert (orders.put(b"one"), orders.put(b"two")) == (0, 1)
    opened, first, second = script.asked
    assert opened == Open("orders", None)
    assert (first.blob, second.blob) == (b"one", b"two")
    assert (first.sequence, second.sequence) == (1, 2)
    assert first.producer == second.producer
    assert script.targets == [None, "n2:2", "n2:2"]


def test_who_is_not_available_is_asked_again_under_the_same_number_with_a_new_grant():
    elsewhere = Opened("orders", QueueSettings(), MASTER, MASTER)
    orders, script = fifo(GRANT, Unavailable("draining"), elsewhere, put_done(7))
    assert orders.put(b"one") == 7
    assert [type(one) for one in script.asked] == [Open, Put, Open, Put]
    first, again = script.asked[1], script.asked[3]
    assert (first.producer, first.sequence) == (again.producer, again.sequence)
    assert (first.caller, first.turn) == (again.caller, again.turn)
    assert first.patience > again.patience, "what is left of the same time"
    assert script.targets == [None, "n2:2", None, "n1:1"]


@pytest.mark.parametrize("error", [Full("full"), DiskFull("full"), Closed("closed")])
def test_what_is_definite_is_raised_at_once(error):
    orders, script = fifo(GRANT, error)
    with pytest.raises(type(error)):
        orders.put(b"one")
    assert len(script.asked) == 2


@pytest.mark.parametrize("error", [OutcomeUnknown("silence"), Unreachable("nobody")])
def test_after_silence_the_grant_is_asked_for_anew_and_the_same_put_again(error):
    orders, script = fifo(GRANT, error, GRANT, put_done(1), put_done(2))
    assert orders.put(b"one") == 1
    assert [type(one) for one in script.asked] == [Open, Put, Open, Put]
    assert script.asked[3].sequence == script.asked[1].sequence
    assert script.asked[3].turn == script.asked[1].turn
    orders.put(b"one")
    assert (script.asked[4].sequence, script.asked[4].turn) == (2, 2), "another call, another put"


@pytest.mark.parametrize("later", [Unavailable("draining"), DiskFull("full")])
def test_no_refusal_is_definite_after_an_attempt_whose_fate_is_open(later):
    def late(_: Any) -> object:
        time.sleep(0.2)  # so that the time is over
        raise later

    orders, _ = fifo(GRANT, OutcomeUnknown("silence"), GRANT, late)
    with pytest.raises(OutcomeUnknown, match="silence"):
        orders.put(b"one", timeout=0.2)


def test_many_small_bodies_are_one_call():
    orders, script = fifo(GRANT, put_done(5))
    assert orders.put_many([b"one", b"", b"three"]) == (Interval(5, 8),)
    put = script.asked[1]
    assert [bytes(one) for one in Batch(put.offsets, put.blob)] == [b"one", b"", b"three"]


@pytest.mark.parametrize(
    "bodies",
    [
        lambda: [b"x"] * (2 * CALL_ITEMS + 1),
        lambda: (b"x" for _ in range(2 * CALL_ITEMS + 1)),
        lambda: Batch.of([b"x"] * (2 * CALL_ITEMS + 1)),
        lambda: [bytes(CALL_BYTES // 2)] * 5,
        lambda: Batch.of([bytes(CALL_BYTES // 2)] * 5),
        lambda: [bytes(CALL_BYTES + 1), bytes(CALL_BYTES), b"x"],
    ],
)
def test_too_many_for_one_call_are_several_and_the_whole_interval_is_told(bodies):
    places = iter([0, 100_000, 200_000])

    def answer(put: Put) -> PutDone:
        return put_done(next(places))(put)

    orders, script = fifo(GRANT, answer, answer, answer)
    [whole] = orders.put_many(bodies())
    puts = script.asked[1:]
    assert len(puts) == 3
    assert [put.sequence for put in puts] == [1, 2, 3]
    assert all(len(put.offsets) // 4 - 1 <= CALL_ITEMS for put in puts)
    batches = [Batch(put.offsets, put.blob) for put in puts]
    assert sum(map(len, batches)) == len(list(bodies()))
    assert b"".join(put.blob for put in puts) == b"".join(map(bytes, bodies()))
    assert whole == Interval(0, 200_000 + len(batches[2]))


def test_a_call_that_fails_in_the_middle_says_what_is_in_the_queue():
    orders, _ = fifo(GRANT, put_done(10), Full("at its bound"))
    with pytest.raises(Full) as raised:
        orders.put_many([b"x"] * (CALL_ITEMS + 1))
    note = f"the first {CALL_ITEMS} bodies are in the queue, in [10, {10 + CALL_ITEMS})"
    assert raised.value.__notes__ == [note]


def test_a_sequence_number_is_one_call_and_needs_a_name():
    orders, script = fifo(GRANT, put_done(0), name="loader-7")
    assert orders.put_many([b"one"], sequence=40) == (Interval(0, 1),)
    assert (script.asked[1].producer, script.asked[1].sequence) == ("loader-7", 40)
    with pytest.raises(TooLarge, match="several calls"):
        orders.put_many([b"x"] * (CALL_ITEMS + 1), sequence=41)
    with pytest.raises(BadOption, match="sequence is None"):
        orders.put(b"two")
    with pytest.raises(BadOption, match="without producer"):
        fifo()[0].put(b"one", sequence=1)
    with pytest.raises(BadOption, match="producer is 'c-1'"):
        ProducerSequence("c-1")


def test_what_was_put_before_and_is_forgotten_has_no_place():
    forgotten = PutDone(0, 0, 1, True, repeated=True)
    orders, _ = fifo(GRANT, forgotten, forgotten, name="loader-7", first=3)
    assert orders.put(b"one") == -1
    assert orders.put_many([b"one", b"two"]) == (Interval(0, 0),)


def test_nothing_to_put_asks_nobody():
    orders, script = fifo()
    assert orders.put_many([]) == (Interval(0, 0),)
    assert script.asked == []


@pytest.mark.parametrize(
    ("put", "told"),
    [
        (lambda orders: orders.put("text"), "a body is bytes, not str"),
        (lambda orders: orders.put(7), "a body is bytes, not int"),
        (lambda orders: orders.put_many(["text"]), "a body is bytes, not str"),
        (lambda orders: orders.put_many([b"one", 7]), "a body is bytes, not int"),
        (lambda orders: orders.put_many(b"one"), "several bodies, not one bytes"),
        (lambda orders: orders.put_many("one"), "several bodies, not one str"),
    ],
)
def test_what_is_no_bytes_is_named_with_the_way_out(put, told):
    with pytest.raises(TypeError, match=told):
        put(fifo()[0])


def test_bytes_in_other_clothes_are_taken_as_bytes():
    orders, script = fifo(GRANT, put_done(0), put_done(0))
    orders.put(bytearray(b"one"))
    orders.put_many([memoryview(b"\1\0\0\0").cast("i"), bytearray(b"two")])
    assert (script.asked[1].blob, script.asked[2].blob) == (b"one", b"\1\0\0\0two")
    batch = Batch(script.asked[2].offsets, script.asked[2].blob)
    assert [bytes(one) for one in batch] == [b"\1\0\0\0", b"two"]


def test_a_body_or_headers_above_the_limit_are_refused_before_anybody_is_asked():
    orders, script = fifo()
    large = bytes((64 << 20) + 1)
    for put in (lambda: orders.put(large), lambda: orders.put_many([b"x", large])):
        with pytest.raises(TooLarge, match="at most 67108864"):
            put()
    with pytest.raises(TooLarge, match="headers of"):
        orders.put(b"x", headers={"x": "y" * 70_000})
    with pytest.raises(BadOption, match="a map from text to text"):
        orders.put(b"x", headers={"x": 1})
    with pytest.raises(BadOption, match="delay is -1"):
        orders.put(b"x", delay=-1)
    assert script.asked in ([], [Open("orders", None)])


def test_settings_are_told_when_the_queue_is_opened():
    settings = queue_settings(replicas=3, durable_copies=2, flush="always", lease=60)
    assert settings == QueueSettings(replicas=3, durable_copies=2, lease=seconds(60))
    script = Script(GRANT, put_done(0))
    Fifo(script, FifoSteps("orders", settings, ProducerSequence())).put(b"one")
    assert script.asked[0] == Open("orders", settings)


@pytest.mark.parametrize(
    "options",
    [
        {"replicas": 0},
        {"replicas": 2.5},
        {"replicas": 2, "durable_copies": 3},
        {"flush": "never"},
        {"flush": float("nan")},
        {"flush": 0},
        {"lease": 0},
        {"lease": float("inf")},
        {"lease": "long"},
        {"max_items": -1},
        {"nonsense": 1},
    ],
)
def test_a_setting_that_can_not_be_had_is_named(options):
    with pytest.raises(BadOption, match="allowed: "):
        queue_settings(**options)


# --- getting --------------------------------------------------------------------------------------


def test_a_get_asks_the_master_and_nothing_is_empty():
    orders, script = fifo(GRANT, leased(0), leased(3, part(8, b"one", failures=2, reason="hot")))
    with pytest.raises(Empty, match="nothing came into orders in 0 s"):
        orders.get(timeout=0)
    item = orders.get(timeout=5)
    assert (item.body, item.position, item.failures, item.reason) == (b"one", 8, 2, "hot")
    assert script.targets == [None, "n1:1", "n1:1"]
    assert script.asked[2].items_max == 1
    assert seconds(4.7) < script.asked[2].patience < seconds(5), "so that its word comes in time"


def test_a_queue_that_was_made_while_a_get_asked_for_it_was_not_deleted():
    def made_meanwhile(_: Open) -> object:
        orders._steps.since = 7  # a put of another thread has heard of it
        raise NoSuchQueue("there is no queue 'orders'")

    made = replace(GRANT, since=7)
    orders, script = fifo(made_meanwhile, made, leased(7, part(0, b"one")))
    assert orders.get(timeout=1).body == b"one"
    assert [type(one) for one in script.asked] == [Open, Open, Get]


def test_items_are_one_batch_whatever_they_came_in():
    orders, _ = fifo(GRANT, leased(3, part(0, b"one", b"two"), part(7, b"three", headers=b"\x80")))
    items = orders.get_many(10)
    assert (len(items), items.token) == (3, 3)
    assert [bytes(body) for body in items.batch] == [b"one", b"two", b"three"]
    assert items.positions == (Interval(0, 2), Interval(7, 8))
    assert [(item.body, item.position) for item in items] == [
        (b"one", 0),
        (b"two", 1),
        (b"three", 7),
    ]


def test_what_is_done_is_told_once():
    orders, script = fifo(GRANT, leased(3, part(0, b"a", b"b", b"c")), Settled(2), Settled(0))
    items = orders.get_many()
    _, second, _ = items
    second.ack()
    second.ack()
    items.ack()
    items.nack()
    assert script.asked[2:] == [
        Settle("orders", 3, done=(Interval(1, 2),)),
        Settle("orders", 3, done=(Interval(0, 1), Interval(2, 3))),
    ]


def test_an_exception_gives_back_with_its_text_and_stopping_without():
    parts = leased(3, part(0, b"a"))
    orders, script = fifo(GRANT, parts, Settled(0), parts, Settled(0), parts, Settled(0))
    with pytest.raises(KeyError), orders.get():
        raise KeyError("name")
    with pytest.raises(KeyboardInterrupt), orders.get():
        raise KeyboardInterrupt
    orders.get().nack()
    back = (Interval(0, 1),)
    assert [one for one in script.asked if isinstance(one, Settle)] == [
        Settle("orders", 3, back=back, reason="KeyError: 'name'"),
        Settle("orders", 3, back=back),
        Settle("orders", 3, back=back, reason="given back without a reason"),
    ]


def test_a_lost_lease_is_told_and_then_known():
    orders, script = fifo(GRANT, leased(3, part(0, b"a")), LeaseLost("it ended"))
    items = orders.get_many()
    for _ in range(2):
        with pytest.raises(LeaseLost, match="it ended"):
            items.ack()
    assert items.lost == "it ended"
    assert len(script.asked) == 3


def test_an_acknowledgement_goes_along_with_the_next_get():
    first, second = part(0, b"a", b"b"), part(2, b"c")
    third = leased(5, part(3, b"d"), refused="lease 4 is over")
    told = LeaseLost("lease 4 is over")
    orders, script = fifo(GRANT, leased(3, first), leased(4, second), third, told, leased(0))
    items = orders.get_many()
    more = orders.get_many(ack=items)
    assert script.asked[2].settle == Settle("orders", 3, done=(Interval(0, 2),))
    items.ack()  # is nothing more to say
    last = orders.get_many(ack=more)
    assert (items.lost, more.lost, last.lost) == ("", "lease 4 is over", "")
    with pytest.raises(Empty):
        orders.get_many(ack=items, timeout=0)
    assert script.asked[-1].settle is None


# --- fetching -------------------------------------------------------------------------------------

SPAN = Span(10, 14, "s1", 100, (MASTER, STORE), failures=1, reason="hot")


class First(Random):
    """Draws the first."""

    def randrange(self, *_: int) -> int:
        return 0


def fetched(*answers: Answer, span: Span = SPAN) -> tuple[Fetching, Script]:
    fetching, script = Fetching("orders", 1 << 20, First()), Script(*answers)
    run(script, fetching.fetch([span]))
    return fetching, script


def test_a_span_is_fetched_bit_by_bit_from_one_who_keeps_it():
    first, rest = part(10, b"a", b"b", b"c"), part(13, b"d")
    fetching, script = fetched(Fetched((first,)), Fetched((rest,)))
    assert [one.start for one in fetching.parts] == [10, 13]
    assert {(one.failures, one.reason) for one in fetching.parts} == {(1, "hot")}
    assert script.asked[1] == Fetch(
        "orders", Span(13, 14, "s1", 103, SPAN.keepers, 1, "hot"), 1 << 20
    )
    assert script.targets == ["n1:1", "n1:1"]


def test_who_fails_or_says_damaged_is_passed_over():
    whole = part(10, b"a", b"b", b"c", b"d")
    for refusal in (Unavailable("draining"), OutcomeUnknown("silence"), Fetched((), damaged=2)):
        fetching, script = fetched(refusal, Fetched((whole,)))
        assert len(fetching.parts) == 1
        assert fetching.unread == []
        assert script.targets == ["n1:1", "n2:2"]


def test_who_is_out_of_reach_is_asked_again_and_not_for_ever():
    whole = part(10, b"a", b"b", b"c", b"d")
    gone = Unavailable("draining")
    fetching, script = fetched(gone, gone, gone, Fetched((whole,)))
    assert len(fetching.parts) == 1
    assert script.targets == ["n1:1", "n2:2"] * 2
    fetching, script = fetched(*[gone] * 100)
    assert fetching.away == fetching.unread == [Interval(10, 14)]
    assert len(script.targets) == 18


def test_one_that_is_silent_is_given_less_time_while_there_are_others():
    whole = part(10, b"a", b"b", b"c", b"d")
    _, script = fetched(OutcomeUnknown("silence"), Fetched((whole,)))
    assert script.times == [1.5, 5.0]


def test_what_nobody_can_give_is_told_and_the_rest_is_fetched():
    rest = part(12, b"c", b"d")
    fetching, _ = fetched(Fetched((), damaged=3), Fetched((), damaged=2), Fetched((rest,)))
    assert fetching.unread == [Interval(10, 12)]
    assert [one.start for one in fetching.parts] == [12]


def test_a_get_gives_back_what_nobody_can_give_and_gets_on():
    span = Span(0, 1, "s1", 0, (STORE,))
    damaged = (leased(3, spans=(span,)), Fetched((), damaged=1), Settled(0))
    orders, script = fifo(GRANT, *damaged, leased(4, part(1, b"fine")))
    assert orders.get().body == b"fine"
    assert script.asked[3] == Settle(
        "orders", 3, back=(Interval(0, 1),), reason="no copy could be read"
    )
    assert isinstance(script.asked[4], Get)


# --- consuming ------------------------------------------------------------------------------------


def renewals(*answers: Answer) -> tuple[LeaseRenewals, Script]:
    return LeaseRenewals(FifoSteps("orders", None, ProducerSequence())), Script(*answers)


def take(books: LeaseRenewals, script: Script) -> LeasedItems:
    delivered = run(script, books.get(10, 1000, 0))
    assert delivered is not None
    return delivered


def test_acknowledgements_travel_in_intervals_with_the_next_get():
    books, script = renewals(GRANT, leased(3, part(0, b"a", b"b", b"c", b"d")), leased(0))
    delivered = take(books, script)
    for position in (0, 1, 3, 2):
        books.done(delivered, position)
    assert run(script, books.get(10, 1000, 0)) is None
    assert script.asked[-1].settle == Settle("orders", 3, done=(Interval(0, 4),))
    assert books.idle
    run(script, books.close())


def test_a_consumer_that_ends_tells_what_is_done_and_gives_back_the_rest_as_no_failure():
    books, script = renewals(GRANT, leased(3, part(0, b"a", b"b", b"c")), Settled(0))
    delivered = take(books, script)
    books.ack(delivered, Interval(1, 2))
    run(script, books.close())
    back = (Interval(0, 1), Interval(2, 3))
    assert script.asked[-1] == Settle("orders", 3, done=(Interval(1, 2),), back=back)


def test_a_suspect_is_not_worked_on_while_nobody_heard_that_the_others_went_back():
    late = {"failures": 1, "reason": LEASE_ENDED}
    came = leased(3, part(0, b"a", b"b", b"c", **late))
    books, script = renewals(GRANT, came, DiskFull("full"), GRANT, Settled(0))
    assert run(script, books.get(10, 1000, 0)) is None
    assert script.asked[-3] == Settle("orders", 3, back=(Interval(1, 3),))
    assert script.asked[-1] == Settle("orders", 3, back=(Interval(0, 3),))
    assert books.idle  # nobody renews what is not worked on


def test_what_was_gathered_while_a_renewal_came_too_late_is_said_to_be_missed():
    missed: list[tuple[Interval, ...]] = []
    books = LeaseRenewals(
        FifoSteps("orders", None, ProducerSequence()), lambda *told: missed.append(told[1])
    )
    delivered = take(books, Script(GRANT, leased(3, part(0, b"a", b"b"))))
    with shown(delivered.renewal):
        renewal = books.tend()
        assert next(renewal).body == Settle("orders", 3, extend=True)
        books.done(delivered, 0)
        with pytest.raises(StopIteration):
            renewal.throw(LeaseLost("it is over"))
    assert missed == [(Interval(0, 1),)]
    assert books.idle


def test_acknowledgements_that_could_not_be_told_are_told_again():
    books, script = renewals(
        GRANT, leased(3, part(0, b"a", b"b")), DiskFull("full"), GRANT, Settled(0)
    )
    delivered = take(books, script)
    books.ack(delivered, Interval(0, 1))
    with pytest.raises(DiskFull):
        run(script, books.get(10, 1000, 0))
    run(script, books.close())
    assert script.asked[-1] == Settle("orders", 3, done=(Interval(0, 1),), back=(Interval(1, 2),))


def test_a_lease_that_was_refused_is_known_to_be_lost():
    came, refused = leased(3, part(0, b"a", b"b")), leased(0, refused="not all of it")
    books, script = renewals(GRANT, came, refused, LeaseLost("it ended"))
    delivered = take(books, script)
    books.ack(delivered, Interval(0, 1))
    run(script, books.get(10, 1000, 0))
    with pytest.raises(LeaseLost, match="it ended"):
        books.ack(delivered, Interval(1, 2))
    run(script, books.close())
    assert len(script.asked) == 4, "nothing more is said about a lease that is lost"


def test_a_get_that_refuses_some_leaves_the_rest_of_the_lease():
    came, refused = leased(3, part(0, b"a", b"b", b"c")), leased(0, refused="not all of it")
    books, script = renewals(GRANT, came, refused, Settled(1, lost=(Interval(0, 1),)), Settled(0))
    delivered = take(books, script)
    books.ack(delivered, Interval(0, 2))
    run(script, books.get(10, 1000, 0))
    books.ack(delivered, Interval(2, 3))
    run(script, books.close())
    assert script.asked[-1] == Settle("orders", 3, done=(Interval(2, 3),))


def test_a_lease_that_ran_out_by_the_own_clock_is_lost():
    books, script = renewals(GRANT, leased(3, part(0, b"a")))
    delivered = take(books, script)
    delivered.ends = steady_now()
    with pytest.raises(LeaseLost, match="ran out"):
        books.ack(delivered, Interval(0, 1))


def test_a_lease_of_which_little_is_left_is_extended_before_anybody_has_it():
    late = Leased(3, (part(0, b"a"),), (), milliseconds(10))
    orders, script = fifo(GRANT, late, Settled(1))
    asked = steady_now()
    items = orders.get_many()
    assert script.asked[2] == Settle("orders", 3, extend=True)
    assert items.delivered.ends - asked >= LEASE


def test_a_lease_that_is_over_when_its_answer_comes_is_nobodys_and_the_next_is_got():
    late = Leased(3, (part(0, b"a"),), (), milliseconds(10))
    orders, script = fifo(GRANT, late, LeaseLost("over"), leased(4, part(0, b"a")))
    assert orders.get_many().token == 4
    assert [type(one) for one in script.asked] == [Open, Get, Settle, Get]


# --- a loop and its end ---------------------------------------------------------------------------


def test_an_acknowledgement_after_the_loop_has_ended_is_refused():
    script = Script(GRANT, leased(3, part(0, b"a", b"b")), Settled(0), Settled(0))
    loop = Fifo(script, FifoSteps("orders", None, ProducerSequence())).consume(prefetch=2)
    first, second = next(loop), next(loop)
    first.ack()
    loop.close()
    first.ack()  # was told when the loop ended
    for late in (second.ack, lambda: second.nack(reason="bad")):
        with pytest.raises(LeaseLost, match="position 1 went back when the loop"):
            late()
    second.release()  # it is where that would bring it
    done, back = (Interval(0, 1),), (Interval(1, 2),)
    assert script.asked[2:] == [Settle("orders", 3, done=done, back=back)]


def test_what_was_in_hand_when_an_exception_ended_the_loop_failed_and_the_rest_did_not():
    script = Script(GRANT, leased(3, part(0, b"a", b"b", b"c")), *3 * [Settled(0)])
    orders = Fifo(script, FifoSteps("orders", None, ProducerSequence()))

    def work() -> None:
        with orders.consume(prefetch=3) as loop:
            for item in loop:
                if item.position == 1:
                    raise KeyError("name")
                item.ack()

    with pytest.raises(KeyError):
        work()
    told = script.asked[2:]  # what was acknowledged goes along, or has gone before
    assert [one.done for one in told if one.done] == [(Interval(0, 1),)]
    back = [(one.back, one.reason) for one in told if one.back]
    assert back == [((Interval(1, 2),), "KeyError: 'name'"), ((Interval(2, 3),), "")]


def pace_of(seconds_each: float, turns: int) -> list[int]:
    """How many a loop takes at once, turn after turn, when each item takes so long."""
    pace, now, settled, taken = PrefetchSize(None), Instant(0), 0, []
    for _ in range(turns):
        pace.came(now, now, settled)
        taken.append(pace.next(now, settled))
        settled += taken[-1]
        now = later(now, seconds(seconds_each * taken[-1]))
    return taken


def test_a_loop_takes_what_it_works_off_in_a_moment():
    assert pace_of(1.0, 5) == [1, 1, 1, 1, 1]
    assert pace_of(0.05, 5) == [1, 4, 4, 4, 4]
    assert pace_of(0.00001, 7) == [1, 4, 16, 64, 256, 1000, 1000]
    quick = PrefetchSize(None)
    quick.came(Instant(0), Instant(0), 0)
    assert quick.next(milliseconds(1), 1) == 4
    assert quick.next(milliseconds(2), 5) == 16
    assert quick.next(milliseconds(1002), 6) == 1, "at once, when the work takes long"
    assert quick.next(milliseconds(1003), 6) == 1, "nothing was settled, so nothing is learnt"


def test_a_loop_for_ever_goes_on_through_failures_and_one_with_a_time_does_until_then():
    endless = LoopDeadline("orders", None)
    endless.begin()
    endless.answered()
    for error in (OutcomeUnknown("x"), Unavailable("x"), Unreachable("x")):
        assert endless.failed(error) > 0
    with pytest.raises(Closed):
        endless.failed(Closed("closed"))
    with pytest.raises(Unreachable):
        LoopDeadline("orders", None).failed(Unreachable("nobody was ever there"))
    timed = LoopDeadline("orders", 0)
    timed.begin()
    with pytest.raises(OutcomeUnknown):
        timed.failed(OutcomeUnknown("silence"))


@pytest.mark.parametrize("first", [OutcomeUnknown("silence"), Unavailable("no view")])
def test_a_loop_to_which_nothing_came_before_all_nodes_went_away_waits_for_them(first):
    endless = LoopDeadline("orders", None)
    endless.begin()
    assert endless.failed(first) > 0, "its first get went to a node that was there"
    assert endless.failed(Unreachable("connection refused")) > 0


# --- a queue that is not there --------------------------------------------------------------------


def test_reading_makes_no_queue_and_says_that_there_is_none():
    orders, script = fifo(NoSuchQueue("none"), NoSuchQueue("none"), GRANT, put_done(0))
    with pytest.raises(Empty, match="there is no such queue yet"):
        orders.get(timeout=0)
    assert list(orders.consume(timeout=0)) == []
    orders.put(b"one")
    assert script.asked[:3] == [
        Open("orders", None, make=False),
        Open("orders", None, make=False),
        Open("orders", None),
    ]


def test_a_get_waits_for_a_queue_to_be_made():
    orders, script = fifo(NoSuchQueue("none"), GRANT, leased(3, part(0, b"a")))
    assert orders.get(timeout=5).body == b"a"
    assert [type(one) for one in script.asked] == [Open, Open, Get]


def test_what_more_intervals_say_than_one_call_may_name_goes_in_several() -> None:
    done = tuple(Interval(2 * at, 2 * at + 1) for at in range(PIECES_MAX + 1))
    told = list(portions(LeaseUpdate(7, done=done, back=done[:1], extend=True)))
    assert [len(one.done) + len(one.back) for one in told] == [PIECES_MAX, 1, 1]
    assert tuple(where for one in told for where in one.done) == done
    assert [one.extend for one in told] == [True, False, False]
