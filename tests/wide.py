"""What `make test` leaves to `make test-all`: more of the same, for which minutes are too dear."""

from typing import Any

import pytest


def wide(*values: Any) -> list[Any]:
    """These values of a parameter, only for `make test-all`; a tuple is one of several names."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.wide)
        for value in values
    ]
