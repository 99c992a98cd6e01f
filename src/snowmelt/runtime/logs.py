"""Structured logs: one JSON object a line, on standard error."""

import logging
import sys
from datetime import UTC, datetime
from typing import Final

from snowmelt.core.shown import json_line

LOG: Final = logging.getLogger("snowmelt")
AUDIT: Final = logging.getLogger("snowmelt.audit")
"""Who was refused what, and who changed what others rely on."""


class JsonLines(logging.Formatter):
    """`{"at": …, "level": …, "event": …, …}`; `tell` has the event and its fields apart."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None) or record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json_line(told)


def set_up(level: str = "info") -> None:
    """Sends this process' log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    LOG.handlers[:] = [handler]
    LOG.setLevel(level.upper())
    LOG.propagate = False


def tell(
    event: str, level: int = logging.INFO, error: BaseException | None = None, /, **fields: object
) -> None:
    """Logs an event, its fields in words, and the traceback of an error.

    >>> LOG.addHandler(handler := logging.StreamHandler(sys.stdout))
    >>> tell("a loop waits", logging.WARNING, queue="orders", again_in="0.2 s")
    a loop waits: queue orders, again in 0.2 s
    >>> LOG.removeHandler(handler)
    """
    _log(LOG, event, level, error, fields)


def audit(event: str, /, **fields: object) -> None:
    """Writes to the audit log."""
    _log(AUDIT, event, logging.INFO, None, fields)


def _log(
    log: logging.Logger,
    event: str,
    level: int,
    error: BaseException | None,
    fields: dict[str, object],
) -> None:
    extra = {"event": event, "fields": fields}
    text = "%s: %s" if fields else "%s%s"
    log.log(level, text, event, _Words(fields), exc_info=error, extra=extra, stacklevel=3)


class _Words:
    """Fields as a person reads them; written only where a line is."""

    def __init__(self, fields: dict[str, object]) -> None:
        self._fields = fields

    def __str__(self) -> str:
        return ", ".join(f"{name.replace('_', ' ')} {one}" for name, one in self._fields.items())
