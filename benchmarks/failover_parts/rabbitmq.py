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
from benchmarks.failover_parts.system import BACK_SECONDS, Put
from benchmarks.fifo.rabbitmq_quorum import LASTING, QUORUM, SCRIPTS, RabbitPeer


class RabbitThree:
    """Three nodes at their defaults; a put is one publish and its confirm."""

    def __init__(self) -> None:
        self.name = "RabbitMQ quorum queue"
        self.version = ""
        self._peer = RabbitPeer(self.name, 3)
        self._folder = Path()

    def start(self, folder: Path) -> None:
        self._folder = folder
        self._peer.start(folder)
        self.version = self._peer.version
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
        return self._numbers([self._told()["leader"]])[0]

    def kill(self, node: int) -> None:
        process = self._peer.servers[1 + node].process
        assert process is not None
        process.kill()
        process.wait(10)

    def back(self, node: int) -> None:
        own = self._folder / f"n{node}"
        self._peer.servers[1 + node].start(self._peer.environment(own, node))
        self._whole()

    def stop(self) -> None:
        self._peer.stop()

    @contextlib.contextmanager
    def _channel(self, at: int) -> Iterator[Any]:
        where = pika.ConnectionParameters(
            "127.0.0.1", self._peer.ports[at], socket_timeout=1, blocked_connection_timeout=5
        )
        connection = pika.BlockingConnection(where)
        try:
            yield connection.channel()
        finally:
            with contextlib.suppress(Exception):
                connection.close()

    def _whole(self) -> None:
        end = time.monotonic() + BACK_SECONDS
        while len(self._numbers(self._told().get("online", []))) < 3:
            if time.monotonic() > end:
                raise TimeoutError("not all three members of the queue are online")
            time.sleep(0.5)

    def _told(self) -> dict[str, Any]:
        """What the queue's nodes say of it."""
        for at, server in enumerate(self._peer.servers[1:]):
            if server.process is None or server.process.poll() is not None:
                continue
            environment = os.environ | self._peer.environment(self._folder / f"n{at}", at)
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
                told: list[dict[str, Any]] = json.loads(done.stdout)
                if told:
                    return told[0]
        return {}

    def _numbers(self, names: list[str]) -> list[int]:
        return [at for at in range(3) if self._peer.node(at) in names]
