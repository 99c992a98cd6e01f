"""A look at something now and then, while a `with` lasts."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def looking(every: float, look: Callable[[], None]) -> Iterator[None]:
    """Looks so many seconds after each look, in a thread; none is under way when it has ended."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every):
            look()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
