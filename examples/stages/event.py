"""What a detector sees: 512 x 512 numbers, a megabyte, with a pedestal on all of them."""

import numpy as np

SIDE = 512
SHAPE = (SIDE, SIDE)
HITS = 200
PEDESTAL = 1000


def make(room: memoryview, detector: int, number: int) -> None:
    """Writes an event where it is to lie; its first two numbers say which one it is."""
    event = np.asarray(room)
    event[:] = PEDESTAL
    chance = np.random.default_rng((detector, number))
    places = chance.integers(0, SIDE, (HITS, 2))
    np.add.at(event, (places[:, 0], places[:, 1]), chance.integers(1, 100, HITS, dtype=np.uint32))
    event[0, :2] = detector, number


def calibrate(body: memoryview, room: memoryview) -> None:
    """Writes an event without its pedestal."""
    event = np.frombuffer(body, np.uint32).reshape(SHAPE)
    calibrated = np.asarray(room)
    np.subtract(event, PEDESTAL, out=calibrated, casting="unsafe")
    calibrated[0, :2] = event[0, :2]


def energy(body: memoryview) -> tuple[int, int, int]:
    """Which event it is, and the sum of what was seen."""
    event = np.frombuffer(body, np.float32).reshape(SHAPE)
    detector, number = event[0, :2]
    return int(detector), int(number), int(event[1:].sum(dtype=np.float64))


def expected(detector: int, number: int) -> tuple[int, int, int]:
    """The same from the beginning, in one process."""
    raw, calibrated = np.empty(SHAPE, np.uint32), np.empty(SHAPE, np.float32)
    make(memoryview(raw), detector, number)
    calibrate(memoryview(raw).cast("B"), memoryview(calibrated))
    return energy(memoryview(calibrated).cast("B"))
