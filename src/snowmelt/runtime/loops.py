"""Event loops, for nodes and for programs that are none."""

import asyncio
from collections.abc import Callable


def new_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """The loop of uvloop where it is to be had, of asyncio elsewhere."""
    try:
        import uvloop  # noqa: PLC0415  # not on every system
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
