"""Parts of a package that are loaded when somebody asks for them.

Most of a program's start is the loading of modules. A client says and hears the messages of all
families, and runs the machine of none; so a family's package loads its machine when it is named.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def when_needed(package: str, **homes: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package: by name, in which of its modules each such part is.

    >>> when_needed("snowmelt.core", Batch="batch")("Batch").__module__
    'snowmelt.core.batch'
    >>> when_needed("snowmelt.core", Batch="batch")("Bach")
    Traceback (most recent call last):
    AttributeError: module 'snowmelt.core' has no attribute 'Bach'
    """

    def part(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return part
