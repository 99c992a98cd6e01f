"""A real node, a recorded one, and a browser."""

from runtime.conftest import pytest_pyfunc_call  # noqa: F401  tests that are coroutines
