"""RabbitMQ: a quorum queue of three members, whose leader is killed."""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
from benchmarks.peers.comparison import Peer
from benchmarks.peers.failover.putters import BACK_SECONDS, Put
from benchmarks.peers.fifo.rabbitmq import LASTING, QUORUM
from benchmarks.peers.servers.rabbitmq import SCRIPTS, RabbitMQ


def quorum(name: str) -> Peer:
    promise = "the quorum queue's leader; flushes before it answers"
    return Peer(name=name, promise=promise, service=RabbitThree(nodes=3))


class RabbitThree(RabbitMQ):
    """Three nodes at their defaults; a put is one publish and its confirm."""

    def start(self, folder: Path) -> None:
        super().start(folder)
        end = time.monotonic() + BACK_SECONDS
        while True:
            try:
                with self._channel(0) as channel:
                    channel.queue_declare("q", durable=True, arguments=QUORUM)
                break
            except pika.exceptions.AMQPError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)
        self._whole()

    @contextlib.contextmanager
    def putter(self, at: int) -> Iterator[Put]:
        with self._channel(at) as channel:
            channel.confirm_delivery()
            yield lambda body: channel.basic_publish("", "q", body, LASTING, mandatory=True)

    def leader(self) -> int:
        return self._numbers([self._said()["leader"]])[0]

    def kill(self, node: int) -> None:
        self.nodes[node].kill()

    def back(self, node: int) -> None:
        self.nodes[node].start(self.environment(node))
        self._whole()

    @contextlib.contextmanager
    def _channel(self, at: int) -> Iterator[Any]:
        where = pika.ConnectionParameters(
            "127.0.0.1", self.ports[at], socket_timeout=1, blocked_connection_timeout=5
        )
        connection = pika.BlockingConnection(where)
        try:
            yield connection.channel()
        finally:
            with contextlib.suppress(Exception):
                connection.close()

    def _whole(self) -> None:
        end = time.monotonic() + BACK_SECONDS
        while len(self._numbers(self._said().get("online", []))) < 3:
            if time.monotonic() > end:
                raise TimeoutError("not all three members of the queue are online")
            time.sleep(0.5)

    def _said(self) -> dict[str, Any]:
        """What the queue's nodes say of it."""
        for at, server in enumerate(self.nodes):
            if server.process is None or server.process.poll() is not None:
                continue
            environment = os.environ | self.environment(at)
            command = [str(SCRIPTS / "rabbitmqctl"), "list_queues", "--formatter", "json", "-q"]
            done = subprocess.run(
                [*command, "name", "leader", "online"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=BACK_SECONDS,
                check=False,
            )
            with contextlib.suppress(ValueError):
                said: list[dict[str, Any]] = json.loads(done.stdout)
                if said:
                    return said[0]
        return {}

    def _numbers(self, names: list[str]) -> list[int]:
        return [at for at in range(3) if self.name(at) in names]
