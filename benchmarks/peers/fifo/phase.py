"""The calls of one kind: how many items a second, and how long a call took."""


def phase(name: str, times: list[float], seconds: float, batch: int) -> dict[str, float]:
    """The figures.

    >>> phase("put", [0.003, 0.001, 0.002], 0.01, 1000)
    {'put_per_second': 300000.0, 'put_p50_ms': 2.0, 'put_p99_ms': 3.0}
    """
    times = sorted(times)
    return {
        f"{name}_per_second": len(times) * batch / seconds,
        f"{name}_p50_ms": 1000 * times[len(times) // 2],
        f"{name}_p99_ms": 1000 * times[len(times) * 99 // 100],
    }


def both(count: int, batch: int, put: float, get: float) -> dict[str, float]:
    """Items a second that go all the way: put, then taken."""
    return {"both_per_second": count * batch / (put + get)}
