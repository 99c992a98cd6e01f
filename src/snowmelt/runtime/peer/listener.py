"""The sockets at which other processes knock: of its address, and the one near it."""

import socket
from collections.abc import Iterator
from typing import Final

from snowmelt.core.errors import BadOption
from snowmelt.core.names import Address
from snowmelt.runtime import near
from snowmelt.runtime.peer.poller import Poller

ACCEPTED_AT_ONCE: Final = 64
BACKLOG: Final = 1024


class Listener:
    """Accepts while it can; pauses when the system has no descriptor left."""

    def __init__(self, poller: Poller, address: Address) -> None:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self._poller = poller
        self._accepting = False
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((address.host, address.port))
            self.socket.listen(BACKLOG)
            self.socket.setblocking(False)
        except (OSError, OverflowError) as error:
            self.socket.close()
            allowed = f"a free address of this machine ({error})"
            raise BadOption("listen", str(address), allowed) from error
        self.address = Address(address.host, self.socket.getsockname()[1])
        beside = near.listen(self.address, BACKLOG)
        self._sockets = [self.socket] if beside is None else [beside, self.socket]
        self.resume()

    def resume(self) -> None:
        if not self._accepting:
            for one in self._sockets:
                self._poller.add(one, self)
            self._accepting = True

    def pause(self) -> None:
        if self._accepting:
            for one in self._sockets:
                self._poller.remove(one)
            self._accepting = False

    def close(self) -> None:
        self.pause()
        for one in self._sockets:
            one.close()

    def forsake(self) -> None:
        """For a child after a fork: closes its copies."""
        for one in self._sockets:
            one.close()

    def accepted(self) -> Iterator[socket.socket]:
        """Who has knocked; none of them blocks."""
        for listening in self._sockets:
            yield from self._accepted(listening)

    def _accepted(self, listening: socket.socket) -> Iterator[socket.socket]:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                stream, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError:  # no descriptor is left: it would be told again and again
                self.pause()
                return
            stream.setblocking(False)
            yield stream
