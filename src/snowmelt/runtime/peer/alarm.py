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
        self.sleeps = False
        """Whether who is to be woken waits, or is about to."""
        self.socket.setblocking(False)
        self._bell.setblocking(False)

    def ring(self) -> None:
        with contextlib.suppress(OSError):  # it is full of rings already, or closed
            self._bell.send(b"\0")

    def wake(self) -> None:
        """Rings when that is needed."""
        if self.sleeps:
            self.ring()

    def silence(self) -> None:
        try:
            self.socket.recv(64)  # what is left after that wakes once more
        except BlockingIOError:
            return

    def close(self) -> None:
        self.socket.close()
        self._bell.close()
