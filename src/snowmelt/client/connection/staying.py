"""What can't be sent to another process, and says what to send instead."""

from collections.abc import Callable
from typing import Any, NoReturn


def stays(instead: str) -> Callable[[Any], NoReturn]:
    """The `__reduce__` of what belongs to one process.

    >>> import copy, snowmelt
    >>> copy.copy(snowmelt.connect("snowmelt://127.0.0.1:1"))
    Traceback (most recent call last):
    TypeError: a Cluster can't be pickled or copied: it belongs to this process; send the URL...
    """

    def refuse(self: Any) -> NoReturn:
        name = type(self).__name__
        article = "an" if name[0] in "AEIO" else "a"
        raise TypeError(
            f"{article} {name} can't be pickled or copied: it belongs to this process; {instead}"
        )

    return refuse
