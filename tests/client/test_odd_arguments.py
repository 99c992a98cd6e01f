"""Arguments that no call takes: an error of ours at once, which names the value."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snowmelt
import snowmelt.aio
from client.fakes import Client
from snowmelt.cli.local import LocalNode

ARRAY = np.array([1, 2])
"""It is neither true nor false."""
Queues = Any  # a cluster of either kind


@pytest.mark.parametrize(
    ("body", "told"), [("text", "body is 'text': Expected `bytes`"), ("\ud800", r"'\\ud800'")]
)
def test_what_no_node_would_read_is_not_sent(
    connect: Callable[..., Client], node: LocalNode, body: Any, told: str
) -> None:
    with connect(node.url) as client:
        client.ping()
        begin = time.monotonic()
        with pytest.raises(snowmelt.CallerError, match=f"Echo can't be asked so: .*{told}"):
            client.ping(body)
        assert time.monotonic() - begin < 5
        assert client.ping(b"next") == b"next"


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda fifo: fifo.peek(dead="\ud800"), r"dead is '\\ud800'"),
        (lambda fifo: fifo.purge(dead="yes"), "dead is 'yes': Expected `bool`"),
        (lambda fifo: fifo.redrive(per_second="ten"), "per_second is 'ten': Expected `int`"),
        (lambda fifo: fifo.peek(dead=ARRAY), "dead is array"),
    ],
)
def test_a_field_that_no_node_reads_is_named_at_once(
    queues: Queues, ask: Callable[[Any], Any], told: str
) -> None:
    fifo = queues.fifo("odd-fields")
    fifo.put(b"one")
    begin = time.monotonic()
    with pytest.raises(snowmelt.CallerError, match=told):
        ask(fifo)
    assert time.monotonic() - begin < 5
    assert fifo.get().body == b"one"


def test_arrays_are_no_headers_no_reasons_and_no_names(queues: Queues) -> None:
    for queue in (queues.fifo("odd-headers"), queues.priority("odd-ranked")):
        for call, given in ((queue.put, b"one"), (queue.put_many, [b"one"])):
            for wrong in (ARRAY, 0, "no map"):
                with pytest.raises(snowmelt.BadOption, match=r"headers is .*; allowed: a map"):
                    call(given, headers=wrong)
        queue.put(b"one", headers={})
        with queue.get() as item:
            assert item.headers == {}
            for name, wrong in (("reason", ARRAY), ("reason", 0), ("dead", ARRAY)):
                with pytest.raises(snowmelt.BadOption, match=f"{name} is "):
                    item.nack(**{name: wrong})
            with pytest.raises(snowmelt.BadOption, match="reason is array"):
                item.nack(reason=ARRAY, delay=1.0)
    with pytest.raises(snowmelt.BadOption, match="queue is array"):
        queues.queue(ARRAY)
    with queues.pool("odd-pool"), pytest.raises(snowmelt.BadOption, match="name is array"):
        queues.pool(ARRAY)


@pytest.mark.parametrize("token", [ARRAY, 7, b"secret", "secret\ud800"])
def test_a_token_that_is_none_is_named_by_its_kind_alone(
    connect: Callable[..., Client], token: Any
) -> None:
    with pytest.raises(snowmelt.BadOption, match="token is <class") as raised:
        connect("snowmelt://127.0.0.1:1", token=token)
    assert "secret" not in str(raised.value)


def test_a_url_that_can_not_be_written_is_refused(connect: Callable[..., Client]) -> None:
    with pytest.raises(snowmelt.BadOption, match="url is "):
        connect("snowmelt://127.0.0.1:1/\ud800")


@pytest.mark.parametrize("folder", ["", "a\0b", "\ud800"])
def test_what_names_no_folder_is_refused(folder: Any) -> None:
    for opens in (snowmelt.open, snowmelt.aio.open):
        with pytest.raises(snowmelt.BadOption, match=r"folder is .*; allowed: the path"):
            opens(folder)


def test_a_name_that_is_too_long_for_a_folder_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(snowmelt.StoreError, match="can't be used: File name too long"):
        snowmelt.open(tmp_path / ("x" * 300))
