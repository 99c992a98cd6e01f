"""Which name a queue or an exchange of kombu has in a cluster."""

import re
from hashlib import blake2b
from typing import Final

from snowmelt.core.names import is_plain_name

_PREFIX: Final = "kombu."
_STRANGE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_SHOWN: Final = 60


def queue_of(name: str) -> str:
    """The same name where a cluster allows it; else what of it is allowed, and a digest.

    >>> queue_of("celery"), queue_of("celery@shop.local.celery.pidbox")
    ('celery', 'kombu.celery-shop.local.celery.pidbox.32f047f02c0153f6')
    """
    if is_plain_name(name) and not name.startswith(_PREFIX):
        return name
    return _digested(name)


def topic_of(exchange: str) -> str:
    """The topic on which an exchange is heard."""
    return _digested(exchange)


def _digested(name: str) -> str:
    shown = _STRANGE.sub("-", name)[:_SHOWN].strip(".-")
    digest = blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{_PREFIX}{shown}.{digest}" if shown else f"{_PREFIX}{digest}"
