"""Which task this is, as `get_ident` says which thread."""

import asyncio


def this_task() -> int:
    """The task that runs, as a number; 0 where no event loop does."""
    try:
        return id(asyncio.current_task())
    except RuntimeError:
        return 0
