"""A get, blocking: only an interrupt ends it before its answer, and the steps are told of that."""

from typing import TypeVar

from snowmelt.client.connection.steps import Port, Steps, run
from snowmelt.client.leases.delivered import Delivered
from snowmelt.client.leases.steps import LeaseSteps

T = TypeVar("T")


def leasing(port: Port, steps: LeaseSteps, get: Steps[Delivered | None]) -> Delivered | None:
    """Takes the steps of a get."""
    del steps
    return run(port, get)


def to_the_end(port: Port, steps: Steps[T]) -> T:
    """Takes steps."""
    return run(port, steps)
