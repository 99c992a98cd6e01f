"""Metrics in Prometheus' text format: a family is a name, a kind, a sentence, and its samples.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

import math
from collections.abc import Iterable
from typing import Final

import msgspec

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
GAUGE: Final = "gauge"
COUNTER: Final = "counter"
SUMMARY: Final = "summary"


class MetricFamily(msgspec.Struct):
    """One metric, and what it is now. All samples of a family stand together.

    >>> one = MetricFamily("snowmelt_queue_items", GAUGE, "Items, by state.")
    >>> one.add(3, labelled(queue="orders", state="ready"))
    >>> print(text([one]), end="")
    # HELP snowmelt_queue_items Items, by state.
    # TYPE snowmelt_queue_items gauge
    snowmelt_queue_items{queue="orders",state="ready"} 3
    """

    name: str
    kind: str
    help: str
    lines: list[str] = []

    def add(self, value: float, labels: str = "", suffix: str = "") -> None:
        """One sample; a summary has those with the suffixes `_sum` and `_count`."""
        told = repr(value) if type(value) is int else _number(value)
        self.lines.append(f"{self.name}{suffix}{labels} {told}\n")


def text(families: Iterable[MetricFamily]) -> str:
    """All of them that have a sample."""
    return "".join([_told(one) for one in families if one.lines])


def _told(family: MetricFamily) -> str:
    said = family.help.replace("\\", r"\\").replace("\n", r"\n")
    head = f"# HELP {family.name} {said}\n# TYPE {family.name} {family.kind}\n"
    return head + "".join(family.lines)


def labelled(**labels: str) -> str:
    r"""Labels as they stand behind a name.

    >>> print(labelled(queue='a "b"\n', state="ready"))
    {queue="a \"b\"\n",state="ready"}
    """
    pairs = ",".join([f'{name}="{_escaped(value)}"' for name, value in labels.items()])
    return f"{{{pairs}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    """A value that may be none of ours.

    >>> _number(0.25), _number(math.inf)
    ('0.25', '+Inf')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return repr(value)
