"""A process of a pool speaks with the cluster's nodes as a client does, in plain and over TLS."""

import asyncio
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from greetings import key_of, whole
from runtime.network import Stranger, serving
from runtime.peering import PATIENCE, engine
from runtime.test_tls import TOKEN, Papers
from snowmelt.core.errors import SnowmeltError, StoreError, Unavailable
from snowmelt.core.names import OperationId
from snowmelt.core.node import (
    Halt,
    Load,
    Loaded,
    Persist,
    Persisted,
    PersistFailed,
    Reply,
    Requested,
    Started,
)
from snowmelt.core.record import Missing, Record, Write
from snowmelt.protocols.calling import Elsewhere
from snowmelt.protocols.pool.calls import Nack, Stop
from snowmelt.protocols.pool.introductions import PoolStatus
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.peer import Engine, PeerConfig
from snowmelt.store import Store
from snowmelt.wire.framing import Kind
from snowmelt.wire.greeting import Hello, Role, said


async def asked(port: int, credentials: Credentials) -> Any:
    """What a node answers, or why not."""

    def ask() -> Any:
        with engine(whole("c-a"), key=key_of("c-a"), credentials=credentials) as (one, machine):
            try:
                return one.call(Nack(port, ()), 5)
            except SnowmeltError as error:
                return error
            finally:
                assert machine.lost() == []

    return await asyncio.to_thread(ask)


def answered(what: Any) -> bool:
    """A node says how the pool is, or which node knows, or that it can't say yet."""
    print(repr(what))
    return isinstance(what, PoolStatus | Elsewhere | Unavailable)


@pytest.mark.parametrize("token", ["", "secret"])
async def test_a_node_answers(tmp_path: Path, token: str):
    credentials = Credentials(token=token)
    async with serving(tmp_path, credentials=credentials) as node:
        assert answered(await asked(node.address.port, credentials))


async def test_a_node_answers_over_tls(tmp_path: Path):
    papers = Papers(tmp_path)
    shown = Credentials(token=TOKEN, authority=papers.authority)
    async with serving(tmp_path, credentials=papers.of("n1")) as node:
        assert answered(await asked(node.address.port, shown))


async def test_a_node_that_does_not_let_it_in_is_lost_and_the_reason_kept(tmp_path: Path):
    async with serving(tmp_path, credentials=Credentials(token="secret")) as node:

        def ask() -> None:
            with engine("c-a") as (one, machine):
                one.submit(Nack(node.address.port, ()), lambda _: None)
                while not machine.lost():
                    pass
                assert "the token is missing or wrong" in str(one.last_failure)
                assert machine.lost() == [f"127.0.0.1:{node.address.port}"]

        await asyncio.wait_for(asyncio.to_thread(ask), 10)


async def test_a_node_refuses_a_peer_and_says_why(tmp_path: Path):
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as other:
        other.send(said(Kind.HELLO, Hello("snowmelt", "c-a", Role.PEER, nonce=bytes(16))))
        last = await other.goodbye()
        assert last.error == "AccessDenied"
        assert "calls it as a client" in last.text


class Never(Enum):
    COMES = "never"


class Keeping:
    """Keeps a record and reads it back."""

    def __init__(self) -> None:
        self.started: tuple[Record, ...] = ()
        self.operation: OperationId | None = None
        self.events: list[Any] = []

    def handle(self, event: Any, now: Any) -> list[Any]:
        del now
        self.events.append(type(event).__name__)
        match event:
            case Started(records):
                self.started = records
                return []
            case Requested(operation, _):
                self.operation = operation
                return [Persist(1, (Write(b"key", b"value"),)), Load(2, (b"key", b"other"))]
            case Persisted(1):
                return []
            case PersistFailed(1, reason, fatal=True):
                return [Halt(reason, "StoreError")]
            case Loaded(2, found):
                return [Reply(self.operation, found)]
            case _:
                return []

    def check(self) -> None:
        pass


def test_what_a_machine_keeps_is_on_the_disk_before_it_goes_on(tmp_path: Path):
    for life in range(2):
        machine = Keeping()
        with Store.open(tmp_path) as store:
            made = Engine(machine, PeerConfig(name="c-a"), store)
            found = made.call(Stop(PATIENCE), 5)
            made.close()
        assert found == (Record(b"key", b"value"), Missing(b"other"))
        assert machine.events[-3:] == ["Requested", "Persisted", "Loaded"]
        assert len(machine.started) == life


def test_a_disk_that_fails_ends_the_engine(tmp_path: Path):
    store = Store.open(tmp_path)
    made = Engine(Keeping(), PeerConfig(name="c-a"), store)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        made.call(Stop(PATIENCE), 5)
    made.close()
