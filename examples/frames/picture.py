"""Made-up frames: noise, and a bright spot that goes round in a circle; and how to find it.

A frame is 16 bytes that say which it is, then its pixels, a byte each. It is one object of a pool.

>>> import numpy as np
>>> frame = Camera(3, 64).frame(5)
>>> number_of(frame)
(3, 5)
>>> angle = np.arctan2(*position(frame)[::-1])
>>> bool(abs(angle - Camera(3, 64).angle(5)) < 0.01)
True
"""

import struct
from math import cos, pi, remainder, sin

import numpy as np
import numpy.typing as npt

HEAD = struct.Struct("<4I")
RADIUS = 0.3
"""Of the circle, as a part of the frame's side."""


class Camera:
    """What one camera sees. `side` is how many pixels a frame has each way."""

    def __init__(self, camera: int, side: int) -> None:
        self.camera = camera
        self.side = side
        self.step = 0.02 * (1 + camera % 7)
        """By how many radians the spot moves from one frame to the next."""
        dice = np.random.default_rng(camera)
        self._noise = dice.integers(0, 20, (side, side), dtype=np.uint8)
        width = max(3, side // 40)
        at = np.arange(-3 * width, 3 * width + 1)
        glow = np.exp(-(at[:, None] ** 2 + at[None, :] ** 2) / (2 * width**2))
        self._spot = (200 * glow).astype(np.uint8)

    def angle(self, number: int) -> float:
        """Where the spot is on its circle, in a frame."""
        return remainder(self.camera + self.step * number, 2 * pi)

    def place(self, number: int) -> tuple[float, float]:
        """The same in pixels, from the middle: what is to be found."""
        angle, radius = self.angle(number), RADIUS * self.side
        return radius * cos(angle), radius * sin(angle)

    def frame(self, number: int) -> bytearray:
        """One frame; nobody must change it once it is put."""
        side, reach = self.side, len(self._spot) // 2
        made = bytearray(HEAD.size + side * side)
        HEAD.pack_into(made, 0, self.camera, number, side, side)
        pixels = np.frombuffer(made, np.uint8, offset=HEAD.size).reshape(side, side)
        pixels[:] = self._noise
        x, y = (round(side / 2 + at) for at in self.place(number))
        pixels[y - reach : y + reach + 1, x - reach : x + reach + 1] += self._spot
        return made


def number_of(frame: bytes | bytearray) -> tuple[int, int]:
    """Which camera made it, and which of its frames it is."""
    camera, number, _, _ = HEAD.unpack_from(frame)
    return camera, number


def position(frame: bytes | bytearray) -> tuple[float, float]:
    """Where the spot is, from the middle: the mean place of all bright pixels."""
    _, _, height, width = HEAD.unpack_from(frame)
    pixels: npt.NDArray[np.uint8] = np.frombuffer(frame, np.uint8, offset=HEAD.size)
    bright = np.where(pixels > 60, pixels, 0).reshape(height, width)
    down, across = bright.sum(axis=1, dtype=np.float64), bright.sum(axis=0, dtype=np.float64)
    total = max(1.0, float(down.sum()))
    x = float(across @ np.arange(width)) / total - width / 2
    y = float(down @ np.arange(height)) / total - height / 2
    return x, y
