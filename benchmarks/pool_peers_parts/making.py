"""How a peer is made from its name, with nothing imported before it takes part."""

import importlib
from typing import Any

from benchmarks.fifo.peer import Missing


def made(package: str, name: str, module: str, kind: str, values: tuple[Any, ...]) -> Any:
    """A peer of this name; its module, with its client's package, is imported only now."""
    try:
        peer = getattr(importlib.import_module(f"{package}.{module}"), kind)
    except ModuleNotFoundError as error:
        raise Missing(
            f"there is no Python package {error.name}: pip install -e '.[bench]'"
        ) from error
    return peer(name, *values)
