"""Wakes whoever waits for the sockets, from any thread: one more socket among them."""

import contextlib
import socket


class Alarm:
    """Rung by anybody; silenced by who was woken.

    >>> alarm = Alarm()
    >>> alarm.ring(); alarm.ring(); alarm.silence()
    >>> alarm.close()
    """

    def __init__(self) -> None:
        self.socket, self._bell = socket.socketpair()
        """To wait for."""
        self.socket.setblocking(False)
        self._bell.setblocking(False)

    def ring(self) -> None:
        with contextlib.suppress(OSError):  # it is full of rings already, or closed
            self._bell.send(b"\0")

    def silence(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self.socket.recv(64):
                pass

    def close(self) -> None:
        self.socket.close()
        self._bell.close()
