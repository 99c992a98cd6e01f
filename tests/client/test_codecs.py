"""Bodies by codec: what is put is what is got, on every face and kind of queue."""

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalNode
from snowmelt.client.leases.delivered import part_bodies
from snowmelt.client.queue import codecs
from snowmelt.client.queue.codecs import codec_of
from snowmelt.client.queue.group_steps import BEGINNING
from snowmelt.core.batch import Batch

ROWS = pa.table({"id": [1, 2, None], "kind": pa.array(["a", "b", "a"]).dictionary_encode()})
VALUES = {
    "text": ["", "grüße", "\0"],
    "json": [{"id": 7, "tags": ["a", None]}, [1, 2.5, True], "x", None, 2**70],
    "msgpack": [{1: b"\xff"}, [None, -1.5], b"bytes", "x"],
    "arrow": [ROWS, ROWS.slice(1, 1), ROWS.slice(0, 0), pa.table({})],
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[snowmelt.EmbeddedCluster]:
    with snowmelt.open(tmp_path_factory.mktemp("codecs")) as cluster:
        yield cluster


def deeply_nested() -> list[Any]:
    found: list[Any] = []
    for _ in range(10_000):
        found = [found]
    return found


def settled(queue: Any) -> list[Any]:
    with queue.get_many(timeout=0) as items:
        return [item.value for item in items]


@pytest.mark.parametrize("codec", VALUES)
def test_what_is_put_is_what_is_got(cluster: snowmelt.EmbeddedCluster, codec: str) -> None:
    values = VALUES[codec]
    for queue in (
        cluster.fifo(f"f-{codec}", codec=codec),
        cluster.priority(f"p-{codec}", codec=codec),
        cluster.pool(f"pool-{codec}", codec=codec),
    ):
        queue.put(values[0])
        queue.put_many(values[1:])
        got = [one.value for one in take(queue, len(values))]
        assert len(got) == len(values)
        if not isinstance(queue, snowmelt.Pool):  # which has no order
            assert got == values


def take(queue: Any, count: int) -> Iterator[Any]:
    loop = queue.consume(timeout=0)
    for _ in range(count):
        item = next(loop)
        assert item.value is item.value, "it is read once"
        yield item
        item.ack()
    loop.close()


def test_the_same_with_await(tmp_path: Path) -> None:
    async def work() -> None:
        async with snowmelt.aio.open(tmp_path) as cluster:
            orders = cluster.fifo("orders", codec="json")
            jobs = cluster.priority("jobs", codec="json")
            frames = cluster.pool("frames", codec="json")
            await orders.put({"id": 1})
            await orders.put_many([{"id": 2}, {"id": 3}])
            async with await orders.get() as item:
                assert item.value == {"id": 1}
            got = [item.value async for item in orders.consume(timeout=0)]
            assert got == [{"id": 2}, {"id": 3}]
            await jobs.put_many([(2, "later"), (0, "now")])
            assert [one.value for one in await jobs.get_many()] == ["now", "later"]
            await frames.put([1])
            async with await frames.get() as frame:
                assert frame.value == [1]

    asyncio.run(work())


def test_a_topic_is_heard_as_values(cluster: snowmelt.EmbeddedCluster) -> None:
    prices = cluster.multicast("prices", codec="json")
    heard, plain = prices.subscribe(timeout=1), cluster.multicast("prices").subscribe(timeout=1)
    prices.publish({"id": 1})
    prices.publish_many([2, [3]])
    cluster.multicast("prices").publish(b"no JSON")
    *told, last = heard
    assert [message.value for message in told] == [{"id": 1}, 2, [3]]
    with pytest.raises(snowmelt.CodecError):
        last.value  # noqa: B018  that it raises is what is tried
    assert next(plain).value == b'{"id":1}'
    with pytest.raises(snowmelt.CodecError):
        prices.publish(b"bytes")


def test_nodes_see_bytes_and_another_program_may_read_them(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        cluster.fifo("coded", codec="json").put({"id": 7})
        assert cluster.fifo("coded").peek()[0].body == b'{"id":7}'
        plain = cluster.queue("coded", codec="msgpack")
        with pytest.raises(snowmelt.CodecError), plain.get() as item:
            item.value  # noqa: B018  that it raises is what is tried
        assert cluster.queue("coded", codec="json").get().value == {"id": 7}


def test_without_a_codec_the_value_is_the_body(cluster: snowmelt.EmbeddedCluster) -> None:
    cluster.fifo("plain").put(b"one")
    assert settled(cluster.fifo("plain")) == [b"one"]


def test_a_value_that_cannot_be_written_is_named_and_nothing_is_put(
    cluster: snowmelt.EmbeddedCluster,
) -> None:
    for codec, value, words in (
        ("json", {"a": math.nan}, "{'a': nan} can't be written as json: JSON has no nan"),
        ("json", [[-math.inf], None], "JSON has no -inf"),
        ("json", b"{}", "JSON has no bytes; put what they encode, or take codec='msgpack'"),
        ("json", {"a": [1, (b"x",)]}, "JSON has no bytes"),
        ("json", [2**70, bytearray(b"x")], "JSON has no bytes"),
        ("json", deeply_nested(), "<list, of which repr raised RecursionError> can't be written"),
        ("json", object(), "Encoding objects of type object is unsupported"),
        ("text", 7, "7 can't be written as text: text is a str, not int"),
        ("text", b"7", "not bytes"),
        ("text", "\ud800", "surrogates not allowed"),
        ("msgpack", 2**70, "can't serialize ints"),
        ("arrow", {"a": [1]}, "it takes tables and record batches, not dict"),
    ):
        for queue in (cluster.fifo("bad", codec=codec), cluster.priority("bad", codec=codec)):
            with pytest.raises(snowmelt.CodecError, match="can't be written as") as raised:
                queue.put(value)
            assert words in str(raised.value)
            with pytest.raises(snowmelt.CodecError):
                queue.put_many([value])
        with pytest.raises(snowmelt.CodecError):
            cluster.pool("bad", codec=codec).put(value)
    assert cluster.pool("bad").stats().put == 0
    assert "bad" not in cluster.queues()


def test_one_value_is_no_row_of_values(cluster: snowmelt.EmbeddedCluster) -> None:
    for codec, value in (("json", {"a": 1}), ("text", "abc"), ("json", b"[]"), ("arrow", ROWS)):
        for queue in (cluster.fifo("bad", codec=codec), cluster.priority("bad", codec=codec)):
            with pytest.raises(TypeError, match=r"several (values|bodies)"):
                queue.put_many(value)


def test_a_body_that_cannot_be_read_fails_as_an_item_whose_handler_raised(
    cluster: snowmelt.EmbeddedCluster,
) -> None:
    cluster.fifo("unread", max_deliveries=2).put_many([b"\xff is not JSON", b'"good"'])
    orders = cluster.fifo("unread", codec="json")

    def work() -> None:
        with orders.consume(timeout=0) as loop:
            for item in loop:
                assert item.value == "good"
                item.ack()

    for _ in range(2):
        with pytest.raises(
            snowmelt.CodecError, match=r"13 bytes, b'\\xff is not JSON', is not json"
        ):
            work()
    assert settled(orders) == ["good"]
    (dead,) = orders.peek(dead=True)
    assert dead.body == b"\xff is not JSON"
    assert dead.reason.startswith("CodecError: a body of 13 bytes")
    with pytest.raises(snowmelt.CodecError):
        orders.value(dead.body)


def test_a_batch_has_bodies_that_are_written_already(cluster: snowmelt.EmbeddedCluster) -> None:
    first, second = cluster.fifo("first", codec="json"), cluster.fifo("second", codec="json")
    first.put_many([1, 2])
    with first.get_many() as items:
        second.put_many(items.batch)
    assert settled(second) == [1, 2]
    jobs = cluster.priority("third", codec="json")
    jobs.put_many(Batch.of([b"[3]"]), priority=1)
    assert settled(jobs) == [[3]]


def test_pairs_have_priorities_and_tuples_of_one_priority_are_values(
    cluster: snowmelt.EmbeddedCluster,
) -> None:
    jobs = cluster.priority("pairs", codec="json")
    jobs.put_many([(2, {"id": 2}), (1, (3, 4))])
    jobs.put_many([(5, 6)], priority=3)
    assert settled(jobs) == [[3, 4], {"id": 2}, [5, 6]]
    with pytest.raises(TypeError, match="pairs"):
        jobs.put_many([(1, 2, 3)])


def test_groups_and_what_is_staged_have_values_too(cluster: snowmelt.EmbeddedCluster) -> None:
    orders = cluster.fifo("staged", codec="json")
    orders.publish(orders.stage([{"id": 1}, {"id": 2}]))
    loaders = orders.group("loaders")
    located = loaders.locate(BEGINNING, loaders.advance().end)
    bodies = [body for part in orders.read(located.spans).parts for body in part_bodies(part)]
    assert [orders.value(body) for body in bodies] == [{"id": 1}, {"id": 2}]
    jobs = cluster.priority("staged-jobs", codec="json")
    jobs.publish(jobs.stage([(1, "b"), (0, "a")]))
    assert settled(jobs) == ["a", "b"]


def test_a_codec_that_is_not_there_is_told_by_name(
    cluster: snowmelt.EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = "allowed: None, text, json, msgpack, arrow"
    for ask in (cluster.fifo, cluster.priority, cluster.pool, cluster.queue):
        with pytest.raises(snowmelt.BadOption, match=f"codec is 'pickle'; {known}"):
            ask("any", codec="pickle")
    monkeypatch.setattr(codecs, "find_spec", lambda _: None)
    with pytest.raises(snowmelt.BadOption, match="only with pyarrow: pip install pyarrow"):
        cluster.fifo("any", codec="arrow")


def test_record_batches_are_tables_and_what_streams_is_taken() -> None:
    arrow = codec_of("arrow")
    (batch,) = ROWS.to_batches()
    assert arrow.value(arrow.body(batch)) == ROWS
    several = arrow.bodies(pa.RecordBatchReader.from_batches(ROWS.schema, [batch, batch]))
    assert [arrow.value(body) for body in several] == [ROWS, ROWS]


def test_a_compressed_or_broken_stream_is_refused_before_it_grows() -> None:
    arrow, wide = codec_of("arrow"), pa.table({"x": pa.array([0] * 1_000_000)})
    words = pa.array(["word" * 1_000_000]).dictionary_encode()
    for table in (wide, pa.table({"word": words})):
        sink = pa.BufferOutputStream()
        how = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, table.schema, options=how) as stream:
            stream.write_table(table)
        assert sink.getvalue().size < 100_000
        with pytest.raises(snowmelt.CodecError, match="it is compressed"):
            arrow.value(bytes(sink.getvalue()))
    grows = pa.BufferOutputStream()
    how = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    schema = pa.schema([("word", pa.dictionary(pa.int32(), pa.string()))])
    with pa.ipc.new_stream(grows, schema, options=how) as stream:
        for count in (1, 2, 3):
            words = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), list("abc")[:count])
            stream.write_batch(pa.record_batch([words], schema=schema))
    with pytest.raises(snowmelt.CodecError, match="it adds to a dictionary"):
        arrow.value(bytes(grows.getvalue()))
    whole = bytes(arrow.body(ROWS))
    for broken in (b"", b"\xff" * 64, whole[:100], whole[: len(whole) // 2]):
        with pytest.raises(snowmelt.CodecError, match="is not arrow"):
            arrow.value(broken)


def test_bytes_that_were_changed_make_an_error_and_never_end_the_program() -> None:
    arrow, whole = codec_of("arrow"), bytes(codec_of("arrow").body(ROWS))
    refused = 0
    for at in range(len(whole)):
        for flipped in (0x01, 0x80, 0xFF):
            changed = bytearray(whole)
            changed[at] ^= flipped
            try:
                arrow.value(changed)
            except snowmelt.CodecError:
                refused += 1
    assert refused > len(whole)
