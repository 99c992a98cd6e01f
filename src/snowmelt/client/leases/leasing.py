"""A get, blocking: only an interrupt ends it before its answer, and the steps are told of that."""

from snowmelt.client.connection.steps import Port, Steps, run
from snowmelt.client.leases.delivered import Delivered
from snowmelt.client.leases.steps import LeaseSteps


def leasing(port: Port, steps: LeaseSteps, get: Steps[Delivered | None]) -> Delivered | None:
    """Takes the steps of a get."""
    del steps
    return run(port, get)
