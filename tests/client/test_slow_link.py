"""Large bodies over a slow link: each is downloaded once, beyond the time-out, and acknowledged."""

from concurrent.futures import ThreadPoolExecutor

from benchmarks.slow_link import Case, measured

KINDS = ("fifo", "priority", "fifo", "priority")
FACES = ("blocking", "blocking", "async", "async")

TLS = (False, True, True, False)


def test_what_takes_four_seconds_on_a_link_comes_once_and_is_acknowledged() -> None:
    with ThreadPoolExecutor(len(KINDS)) as threads:
        told = list(
            threads.map(
                lambda kind, face, tls: measured(Case(2, 0.5, tls), 2, kind, face),
                *(KINDS, FACES, TLS),
            )
        )
    for one in told:
        assert (one["acked"], one["failed"], one["left"]) == (2, 0, 0), one
        assert one["downloaded_for_each_byte"] < 1.2, one
