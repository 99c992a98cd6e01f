"""A real node, a recorded one, and a browser."""

from collections.abc import Iterator

import pytest

from page.browser import Chromium
from runtime.conftest import pytest_pyfunc_call  # noqa: F401  tests that are coroutines


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """One for all tests of a file: its start is most of what a page costs."""
    made = Chromium(tmp_path_factory.mktemp("chromium") / "profile")
    yield made
    made.end()
