"""Structured logs: one JSON object a line, on standard error."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

LOG: Final = logging.getLogger("snowmelt")


class JsonLines(logging.Formatter):
    """`{"at": …, "level": …, "event": …, …}`; `extra={"fields": {…}}` adds fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        told = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)


def set_up(level: str = "info") -> None:
    """Sends this process' log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    LOG.handlers[:] = [handler]
    LOG.setLevel(level.upper())
    LOG.propagate = False


def tell(event: str, level: int = logging.INFO, /, **fields: object) -> None:
    """Logs an event and its fields."""
    LOG.log(level, event, extra={"fields": fields})
