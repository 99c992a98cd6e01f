"""Carries requests to etcd and answers back: rules 2 and 4 of the package."""

import asyncio
import contextlib
import http.client
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from snowmelt.core.errors import MessageError, SnowmeltError
from snowmelt.core.names import Address, NodeId
from snowmelt.core.record import UNREADABLE
from snowmelt.protocols.etcd import (
    ETCD,
    Answer,
    EtcdFailed,
    LeaseGrant,
    Refresh,
    Request,
    Revoke,
    Trouble,
)
from snowmelt.runtime.etcd import gateway
from snowmelt.runtime.etcd.place import EtcdPlace
from snowmelt.runtime.logs import tell

ANSWER_SECONDS: Final = 1.5
"""Less than a machine waits before it asks again."""
WAITING_MAX: Final = 2
"""So many requests are on a line or wait for it; another is dropped, as if it was lost.

What waits long behind one that is not answered would be of no use to who asked it.
"""

Deliver = Callable[[NodeId, Answer], None]


class EtcdConnection:
    """One connection after another, to one endpoint or the next; used by one thread."""

    def __init__(self, place: EtcdPlace) -> None:
        self._place = place
        self._context = place.context()
        self._at = 0
        self._connection: http.client.HTTPConnection | None = None
        self._token = ""

    def carry(self, request: Request) -> Answer:
        """Asks, and brings what is answered; never raises."""
        try:
            path, body = gateway.asked(request, self._place.prefix)
            status, answer = self._authenticated(path, body)
            if status == http.client.OK:
                return gateway.answered(request, answer, self._place.prefix)
            return gateway.failed(request, status, answer)
        except (OSError, http.client.HTTPException, SnowmeltError, *UNREADABLE) as error:
            where = self._place.endpoints[self._at]
            self._leave()
            said = str(error) or type(error).__name__
            return EtcdFailed(request.number, Trouble.UNKNOWN, f"{where}: {said}")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def cut(self) -> None:
        """For another thread: what is being asked has had its time."""
        stream = None if self._connection is None else self._connection.sock
        if stream is not None:
            with contextlib.suppress(OSError):  # it is closed by now
                stream.shutdown(socket.SHUT_RDWR)

    def _authenticated(self, path: str, body: bytes) -> tuple[int, bytes]:
        place = self._place
        if place.user and not self._token:
            self._token = self._new_token()
        status, answer = self._post(path, body)
        if place.user and gateway.wants_a_token(status, answer):  # it has ended: nothing was done
            self._token = self._new_token()
            status, answer = self._post(path, body)
        return status, answer

    def _new_token(self) -> str:
        self._token = ""
        path, body = gateway.asked_token(self._place.user, self._place.password)
        status, answer = self._post(path, body)
        if status != http.client.OK:
            text = gateway.failed(Refresh(0, 0), status, answer).text
            raise MessageError(f"etcd does not let {self._place.user} in: {text}")
        return gateway.token(answer)

    def _post(self, path: str, body: bytes) -> tuple[int, bytes]:
        connection = self._connected()
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = self._token
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        answer = response.read(gateway.ANSWER_BYTES_MAX + 1)
        if len(answer) > gateway.ANSWER_BYTES_MAX:
            raise MessageError(f"etcd answers with more than {gateway.ANSWER_BYTES_MAX} bytes")
        return response.status, answer

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is not None:
            return self._connection
        endpoints = self._place.endpoints
        failure: OSError | None = None
        for _ in endpoints:
            connection = self._dialled(endpoints[self._at])
            try:
                connection.connect()
            except OSError as error:  # it was told nothing: the next is asked at once
                connection.close()
                failure = error
                self._at = (self._at + 1) % len(endpoints)
            else:
                self._connection = connection
                return connection
        assert failure is not None
        raise failure

    def _dialled(self, endpoint: Address) -> http.client.HTTPConnection:
        host, port, time = endpoint.host, endpoint.port, ANSWER_SECONDS
        if self._context is None:
            return http.client.HTTPConnection(host, port, timeout=time)
        return http.client.HTTPSConnection(host, port, timeout=time, context=self._context)

    def _leave(self) -> None:
        """What this endpoint may still answer is nobody's; the next is asked from here on."""
        self.close()
        self._at = (self._at + 1) % len(self._place.endpoints)


class EtcdClient:
    """Two lines, so that a transaction that takes long holds up no lease."""

    def __init__(self, place: EtcdPlace, deliver: Deliver) -> None:
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._threads: list[ThreadPoolExecutor] = []
        self._lines: list[EtcdConnection] = []
        for name in ("leases", "transactions"):
            self._threads.append(ThreadPoolExecutor(1, f"etcd-{name}"))
            self._lines.append(EtcdConnection(place))
        self._waiting = [0, 0]
        self._trouble = ""
        self._closed = threading.Event()
        self.asked = 0
        """How many requests went out, since the process began."""

    def ask(self, request: Request) -> None:
        """Carries a request; its answer is delivered, unless the client is closed first."""
        at = 0 if isinstance(request, LeaseGrant | Refresh | Revoke) else 1
        if self._closed.is_set() or self._waiting[at] >= WAITING_MAX:
            return  # silence: it is asked again
        self._waiting[at] += 1
        self.asked += 1
        line = self._lines[at]
        future = self._threads[at].submit(line.carry, request)
        future.add_done_callback(lambda done: self._carried(at, done))
        self._loop.call_later(WAITING_MAX * ANSWER_SECONDS, self._late, line, future)

    async def close(self) -> None:
        """Waits for what was asked, for as long as an answer may take."""
        self._closed.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.shutdown, wait=True, cancel_futures=False)
        for line in self._lines:
            line.close()

    def _late(self, line: EtcdConnection, asked: "Future[Answer]") -> None:
        """Each piece of an answer came in time, perhaps, and the whole did not."""
        if not asked.done():
            line.cut()

    def _carried(self, at: int, done: "Future[Answer]") -> None:
        """In the line's thread: one hop to the loop."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            self._loop.call_soon_threadsafe(self._answered, at, done.result())

    def _answered(self, at: int, answer: Answer) -> None:
        self._waiting[at] -= 1
        lost = ""
        if isinstance(answer, EtcdFailed) and answer.trouble is Trouble.UNKNOWN:
            lost = answer.text
        if lost != self._trouble:
            if not lost:
                tell("etcd answers again")
            elif not self._trouble:
                tell("etcd does not answer", logging.WARNING, reason=lost)
            self._trouble = lost
        if not self._closed.is_set():
            self._deliver(ETCD, answer)
