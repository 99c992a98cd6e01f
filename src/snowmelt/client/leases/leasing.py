"""A get, blocking: only an interrupt ends it before its answer, and the steps see it."""

from snowmelt.client.connection.steps import Port, Steps, run
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.steps import LeaseSteps


def leasing(port: Port, steps: LeaseSteps, get: Steps[LeasedItems | None]) -> LeasedItems | None:
    del steps
    return run(port, get)
