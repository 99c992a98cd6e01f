"""The version of Snowmelt, for all that tell it; `pyproject.toml` has the same."""

from typing import Final

VERSION: Final = "0.1.0"
