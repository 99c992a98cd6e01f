"""Doors, a node and programs are killed that send, receive and delete; a history is judged.

1. What was answered as sent is received.
2. What is received was sent.
3. What was deleted within its time is not received again.
4. What was received is not received again before its time is over, whichever door dies.
"""

import json
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from .conftest import client_of

VISIBILITY = 4
QUEUE = "http://here/123456789012/storm"


class Program:
    """A process of `snowmelt` that may be killed, and is started anew with the same words."""

    def __init__(self, port: int, *words: str) -> None:
        self.port = port
        self._words = words
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "snowmelt", *self._words], stdout=subprocess.DEVNULL
        )

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = self._start()

    def wait(self) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError(f"nobody listens at {self.port}")

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


class History:
    """What programs saw, by bodies."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tried: set[str] = set()
        self.sent: set[str] = set()
        self.received: dict[str, list[tuple[float, float]]] = {}
        """When each was asked for, and when it came."""
        self.deleted: dict[str, float] = {}
        """When it was answered that it is deleted, within its time."""

    def faults(self) -> list[str]:
        """What is not as the rules say."""
        found = [f"{one} was sent, and never received" for one in self.sent - set(self.received)]
        found += [f"{one} was never sent" for one in set(self.received) - self.tried]
        for body, times in self.received.items():
            times.sort()
            gone = self.deleted.get(body)
            if gone is not None and any(asked > gone for asked, _ in times):
                found.append(f"{body} was received after it was deleted")
            for (asked, _), (_, came) in pairwise(times):
                if came - asked < VISIBILITY - 0.05:
                    found.append(f"{body} was received again after {came - asked:.2f} s")
        return found


def test_a_judge_finds_each_fault() -> None:
    history = History()
    history.tried = {"lost", "early", "again"}
    history.sent = {"lost"}
    history.received = {
        "early": [(0.0, 0.1), (1.0, 1.1)],
        "again": [(0.0, 0.1), (9.0, 9.1)],
        "strange": [(0.0, 0.1)],
    }
    history.deleted = {"again": 1.0}
    assert sorted(history.faults()) == [
        "again was received after it was deleted",
        "early was received again after 1.10 s",
        "lost was sent, and never received",
        "strange was never sent",
    ]


def send(clients: list[Any], history: History, stop: threading.Event, name: str) -> None:
    """Sends until it is told to stop, each body once."""
    number, chance = 0, random.Random(name)
    while not stop.is_set():
        bodies = [f"{name}-{number + at}" for at in range(3)]
        number += 3
        with history.lock:
            history.tried.update(bodies)
        entries = [{"Id": str(at), "MessageBody": body} for at, body in enumerate(bodies)]
        try:
            told = chance.choice(clients).send_message_batch(QueueUrl=QUEUE, Entries=entries)
        except (BotoCoreError, ClientError):
            time.sleep(0.1)
            continue
        with history.lock:
            history.sent.update(bodies[int(one["Id"])] for one in told["Successful"])
        time.sleep(0.02)


def receive(clients: list[Any], history: History, over: threading.Event, name: str) -> None:
    """Receives, forgets some, and deletes the others, at whichever door."""
    chance = random.Random(name)
    while not over.is_set():
        asked = time.monotonic()
        try:
            got = chance.choice(clients).receive_message(QueueUrl=QUEUE, MaxNumberOfMessages=5)
        except (BotoCoreError, ClientError):
            time.sleep(0.1)
            continue
        came = time.monotonic()
        some = got.get("Messages", [])
        with history.lock:
            for one in some:
                history.received.setdefault(one["Body"], []).append((asked, came))
        for one in some:
            if chance.random() < 0.1:
                continue
            handle = one["ReceiptHandle"]
            try:
                chance.choice(clients).delete_message(QueueUrl=QUEUE, ReceiptHandle=handle)
            except (BotoCoreError, ClientError):
                continue
            now = time.monotonic()
            if now < asked + VISIBILITY - 0.5:
                with history.lock:
                    history.deleted[one["Body"]] = now
        if not some:
            time.sleep(0.05)


def ask(port: int, action: str, asked: dict[str, Any], seconds: float) -> None:
    """As a program that is killed so long after its request: it hears no answer."""
    body = json.dumps(asked).encode()
    head = (
        f"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.{action}\r\n"
        f"Content-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.sendall(head.encode() + body)
            time.sleep(seconds)
    except OSError:  # the door is dead, too
        time.sleep(0.1)


def die(ports: list[int], history: History, stop: threading.Event) -> None:
    """Programs that send or receive, each killed within its request."""
    number, chance = 0, random.Random(0)
    while not stop.is_set():
        body, seconds = f"dead-{number}", chance.choice((0.0, 0.005, 0.1))
        number += 1
        with history.lock:
            history.tried.add(body)
        port = chance.choice(ports)
        ask(port, "SendMessage", {"QueueUrl": QUEUE, "MessageBody": body}, seconds)
        ask(port, "ReceiveMessage", {"QueueUrl": QUEUE, "WaitTimeSeconds": 1}, seconds)
        time.sleep(0.05)


def free() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def running(folder: Path) -> Iterator[list[Program]]:
    """A node and two doors of it."""
    at = free()
    words = "node", "--data", str(folder), "--id", "n1", "--listen", f"127.0.0.1:{at}"
    begin = "found", "--data", str(folder), "--id", "n1"
    subprocess.run([sys.executable, "-m", "snowmelt", *begin], check=True, capture_output=True)
    programs = [Program(at, *words)]
    try:
        programs[0].wait()
        for _ in range(2):
            port = free()
            url = f"snowmelt://127.0.0.1:{at}"
            programs.append(Program(port, "sqs", "--url", url, "--listen", f"127.0.0.1:{port}"))
        for one in programs:
            one.wait()
        yield programs
    finally:
        for one in reversed(programs):
            one.end()


def kill(programs: list[Program], kills: int) -> None:
    """So often a door, or the node."""
    chance = random.Random(kills)
    for number in range(kills):
        time.sleep(chance.uniform(0.3, 1.0))
        victim = programs[0] if number % 3 == 2 else chance.choice(programs[1:])
        victim.kill()
        victim.wait()


def storm(folder: Path, kills: int) -> History:
    """Kills a door, or the node, so often; what programs saw of it."""
    history, stop, over = History(), threading.Event(), threading.Event()
    with running(folder) as programs:
        try:
            clients = [client_of(one.port) for one in programs[1:]]
            clients[0].create_queue(
                QueueName="storm", Attributes={"VisibilityTimeout": str(VISIBILITY)}
            )
            senders = [
                threading.Thread(target=send, args=(clients, history, stop, f"s{at}"))
                for at in range(2)
            ]
            receivers = [
                threading.Thread(target=receive, args=(clients, history, over, f"r{at}"))
                for at in range(2)
            ]
            ports = [one.port for one in programs[1:]]
            senders.append(threading.Thread(target=die, args=(ports, history, stop)))
            for thread in (*senders, *receivers):
                thread.start()
            kill(programs, kills)
            stop.set()
            for thread in senders:
                thread.join()
            until = time.monotonic() + 60
            while time.monotonic() < until and history.sent - set(history.received):
                time.sleep(0.2)
            time.sleep(VISIBILITY + 1)
            over.set()
            for thread in receivers:
                thread.join()
        finally:
            stop.set()
            over.set()
    return history


def test_a_small_storm_loses_and_doubles_nothing(tmp_path: Path) -> None:
    history = storm(tmp_path, 3)
    assert history.faults() == []
    assert len(history.sent) > 20
    assert len(history.deleted) > 10
    assert any(body.startswith("dead") for body in history.received)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_large_storm_loses_and_doubles_nothing(tmp_path: Path) -> None:
    history = storm(tmp_path, 60)
    assert history.faults() == []
    assert len(history.deleted) > 500
