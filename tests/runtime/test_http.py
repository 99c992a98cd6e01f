"""What a node shows over HTTP: metrics that parse and are true, probes, and bounds on who asks."""

import asyncio
import socket
import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import snowmelt.aio
from runtime.exposition import read
from runtime.network import serving, until
from runtime.test_tls import Papers
from snowmelt.core.errors import BadOption
from snowmelt.core.names import Address
from snowmelt.page.site import PageSite
from snowmelt.runtime.http import serving as web
from snowmelt.runtime.limits import Limits
from snowmelt.runtime.server import Server

HERE = Address("127.0.0.1", 0)


async def asked(
    server: Server, path: str, *heads: str, method: str = "GET", tls: Any = None
) -> tuple[int, str]:
    """The status and the body of an answer."""
    at = server.http_at
    assert at is not None
    name = "n1" if tls else None
    reader, writer = await asyncio.open_connection(at.host, at.port, ssl=tls, server_hostname=name)
    lines = (f"{method} {path} HTTP/1.1", f"Host: {at}", *heads, "", "")
    writer.write("\r\n".join(lines).encode())
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    if method == "GET":
        assert f"Content-Length: {len(body)}" in rest
    return int(first.split()[1]), body.decode()


async def metrics(server: Server) -> dict[str, float]:
    status, body = await asked(server, "/metrics")
    assert status == 200
    return read(body)


async def test_metrics_are_what_stats_tells(tmp_path: Path) -> None:
    async with serving(tmp_path, http=HERE) as node:
        async with snowmelt.aio.connect(f"snowmelt://{node.address}") as cluster:
            orders, jobs = cluster.fifo("orders"), cluster.priority("jobs", priorities=3)
            await orders.put_many([b"x"] * 10)
            await jobs.put_many([(0, b"now"), (2, b"later")])
            held = await orders.get_many(4)
            one, two, *_ = held
            await one.ack(wait=True)
            await two.nack(reason="no")
            await orders.put(b"late", delay=1000)
            told = await metrics(node.server)
            status = await orders.stats()
        for state in ("ready", "leased", "delayed", "dead", "assigned", "staged"):
            key = f'snowmelt_queue_items{{queue="orders",state="{state}"}}'
            assert told[key] == getattr(status, state)
        assert told['snowmelt_queue_items{queue="jobs",state="ready"}'] == 2
        assert told['snowmelt_queue_put_total{queue="orders"}'] == 11
        assert told['snowmelt_queue_delivered_total{queue="orders"}'] == 4
        assert told['snowmelt_queue_acknowledged_total{queue="orders"}'] == 1
        assert told['snowmelt_queue_failed_total{queue="orders"}'] == 1
        assert told['snowmelt_queue_delivery_age_seconds_count{queue="orders"}'] == 4
        age = told['snowmelt_queue_oldest_item_age_seconds{queue="orders",state="ready"}']
        assert 0 <= age <= status.oldest_ready + 0.001
        assert told["snowmelt_node_current"] == 1
        assert told["snowmelt_view_members"] == 1
        assert told["process_resident_memory_bytes"] > 10 << 20


async def test_beyond_a_number_of_queues_they_are_told_together(tmp_path: Path) -> None:
    limits = Limits(metric_queues=2)
    async with (
        serving(tmp_path, http=HERE, limits=limits) as node,
        snowmelt.aio.connect(f"snowmelt://{node.address}") as cluster,
    ):
        for name in ("a", "b", "c", "d"):
            await cluster.fifo(name).put(b"one")
        first = await metrics(node.server)
        for name in ("a", "c", "d"):
            await cluster.fifo(name).put_many([b"x"] * 10)
        second = await metrics(node.server)
        await cluster.delete("d")
        third = await metrics(node.server)
        await cluster.delete("a")
        await cluster.fifo("c").put(b"one")
        fourth = await metrics(node.server)
        last = await metrics(node.server)
    others = 'snowmelt_queue_put_total{queue="(other)"}'
    counted = [told.get(others, -1) for told in (first, second, third, fourth)]
    assert counted == [0, 20, 20, 21]  # since they were first seen; none is taken back
    assert first['snowmelt_queue_items{queue="(other)",state="ready"}'] == 2
    assert third['snowmelt_queue_items{queue="(other)",state="ready"}'] == 11
    assert 'snowmelt_queue_put_total{queue="c"}' not in fourth
    assert 'snowmelt_queue_put_total{queue="c"}' in last  # there is room for its name
    names = {key.split('"')[1] for key in second if "{queue=" in key}
    assert names == {"a", "b", "(other)"}


async def test_who_is_cut_off_is_not_ready_and_lives(tmp_path: Path) -> None:
    async with serving(tmp_path) as first:
        join = (first.address,)
        async with serving(tmp_path, "n2", join=join, http=HERE) as second:
            await until(lambda: second.server.current)
            status, body = await asked(second.server, "/readyz")
            assert (status, body.startswith("current in view ")) == (200, True)
            await first.server.stop(depart=False)
            await until(lambda: not second.server.current)
            status, body = await asked(second.server, "/readyz")
            assert (status, body.startswith("not current: cut off since view ")) == (503, True)
            assert await asked(second.server, "/livez") == (200, "alive\n")
            told = await metrics(second.server)
            assert told["snowmelt_node_current"] == 0
            first.server.stop = _done  # type: ignore[method-assign]


async def _done(**_: Any) -> None:
    pass


async def test_who_asks_otherwise_is_told_how(tmp_path: Path) -> None:
    async with serving(tmp_path, http=HERE) as node:
        server = node.server
        assert (await asked(server, "/else"))[1] == "here are /metrics, /livez, /readyz\n"
        assert (await asked(server, "/metrics", method="POST"))[0] == 405
        assert await asked(server, "/livez", method="HEAD") == (200, "")
        assert (await asked(server, "/livez?verbose=1"))[0] == 200
        assert (await asked(server, "/livez", "X: " + "x" * web.HEAD_BYTES_MAX))[0] == 431
        assert (await asked(server, "/a b"))[0] == 400


async def test_who_says_nothing_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "HEAD_SECONDS", 5.0)
    async with serving(tmp_path, http=HERE) as node:
        at = node.server.http_at
        assert at is not None
        silent = [
            await asyncio.open_connection(at.host, at.port) for _ in range(web.CONNECTIONS_MAX)
        ]
        await asyncio.sleep(0.2)
        begun = asyncio.get_running_loop().time()
        for _ in range(3):
            assert (await asked(node.server, "/livez"))[0] == 200
        first, _ = silent[0]
        assert await asyncio.wait_for(first.read(), 10) == b""
        assert asyncio.get_running_loop().time() - begun < 4, "it went before its time was over"
        for reader, writer in silent:  # the time of the others is over, too
            assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()
            await writer.wait_closed()


async def test_who_sends_no_body_keeps_nobody_out(tmp_path: Path) -> None:
    async with serving(tmp_path, http=HERE, site=PageSite) as node:
        at = node.server.http_at
        assert at is not None
        held = [await asyncio.open_connection(at.host, at.port) for _ in range(web.CONNECTIONS_MAX)]
        for _, writer in held:
            writer.write(b"POST /do HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
        await asyncio.sleep(0.2)
        for _ in range(3):
            assert (await asked(node.server, "/livez"))[0] == 200
        for _, writer in held:
            writer.close()


async def test_a_length_of_thousands_of_digits_is_none(tmp_path: Path) -> None:
    async with serving(tmp_path, http=HERE, site=PageSite) as node:
        length = f"Content-Length: {'1' * 5_000}"
        assert (await asked(node.server, "/do", length, method="POST"))[0] == 413


async def test_a_name_that_leads_here_is_told_nothing_on_loopback(tmp_path: Path) -> None:
    async with serving(tmp_path, http=HERE) as node:
        for path in ("/metrics", "/livez"):
            assert (await asked(node.server, path, "Host: evil.example:9410"))[0] == 403
            assert (await asked(node.server, path, "Host: localhost"))[0] == 200


async def test_who_does_not_begin_tls_or_does_not_end_it_takes_few_places(tmp_path: Path) -> None:
    papers = Papers(tmp_path)
    shown = {"credentials": papers.of("n1"), "http": Address("0.0.0.0", 0), "http_token": "secret"}
    async with serving(tmp_path, **shown) as node:
        tls = ssl.create_default_context(cafile=papers.authority)
        at = node.server.http_at
        assert at is not None
        before, many = open_files(), 4 * web.CONNECTIONS_MAX
        silent = [await asyncio.open_connection(at.host, at.port) for _ in range(many)]
        most = before + many + 2 * web.CONNECTIONS_MAX + FEW
        await until(lambda: open_files() <= most)
        assert (await asked(node.server, "/livez", tls=tls))[0] == 200
        for _, writer in silent:
            writer.close()
        await until(lambda: open_files() <= before + FEW)
        with ExitStack() as stack:
            for _ in range(many):
                stack.enter_context(await asyncio.to_thread(left_open, at, tls))
            await until(lambda: open_files() <= most)
            assert (await asked(node.server, "/livez", tls=tls))[0] == 200


FEW = 5


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def left_open(at: Address, tls: ssl.SSLContext) -> ssl.SSLSocket:
    """Is answered, and says nothing to that."""
    stream = tls.wrap_socket(socket.create_connection((at.host, at.port)), server_hostname="n1")
    stream.sendall(b"GET /livez HTTP/1.1\r\nHost: n1\r\n\r\n")
    assert stream.recv(1_000).startswith(b"HTTP/1.1 200")
    return stream


async def test_a_token_guards_metrics_and_no_probe(tmp_path: Path) -> None:
    async with serving(tmp_path, http=HERE, http_token="secret") as node:
        server = node.server
        assert (await asked(server, "/metrics"))[0] == 401
        assert (await asked(server, "/metrics", "Authorization: Bearer guess"))[0] == 401
        assert (await asked(server, "/metrics", "authorization: Bearer secret"))[0] == 200
        await until(lambda: server.current)
        assert (await asked(server, "/readyz"))[0] == 200


async def test_off_loopback_it_is_told_over_tls_to_who_has_the_token(tmp_path: Path) -> None:
    papers = Papers(tmp_path)
    everywhere = Address("0.0.0.0", 0)
    with pytest.raises(BadOption, match=r"--http is '0.0.0.0:0'; allowed: .*--http-token-file"):
        async with serving(tmp_path, credentials=papers.of("n1"), http=everywhere):
            pass
    with pytest.raises(BadOption, match="--tls-authority, --tls-certificate, --tls-key"):
        async with serving(tmp_path, http=everywhere, http_token="secret"):
            pass
    good = {"credentials": papers.of("n1"), "http": everywhere, "http_token": "secret"}
    async with serving(tmp_path, **good) as node:
        tls = ssl.create_default_context(cafile=papers.authority)
        status, body = await asked(node.server, "/metrics", "Authorization: Bearer secret", tls=tls)
        assert (status, "snowmelt_node_info" in body) == (200, True)


async def test_a_port_that_is_taken_ends_the_node_with_a_sentence(tmp_path: Path) -> None:
    async with serving(tmp_path, http=HERE) as node:
        taken = node.server.http_at
        async with serving(tmp_path, "n2", join=(node.address,), http=taken) as second:
            assert "can't listen on" in str(second.server.failure)
            assert "--http" in str(second.server.failure)
