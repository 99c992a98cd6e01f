"""A run that was written by hand is drawn, and two holders of one baton are seen in the picture."""

import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

pytest.importorskip("matplotlib")

from benchmarks.baton_chaos_parts.chart import draw, finding  # noqa: E402
from benchmarks.baton_chaos_parts.crowd import Life  # noqa: E402
from benchmarks.baton_chaos_parts.events import Deed, Event, Part, Span  # noqa: E402
from benchmarks.baton_chaos_parts.history import overlaps, read_history  # noqa: E402
from benchmarks.baton_chaos_parts.journal import Line, What  # noqa: E402
from benchmarks.baton_chaos_parts.turns import by_fence  # noqa: E402

from snowmelt.core.errors import BadOption  # noqa: E402

SECOND = 1_000_000_000
EVENTS = [
    Event(1 * SECOND, Deed.STORM),
    Event(3 * SECOND, Deed.STOPPED, "worker-0-0", Part.HOLDER),
    Event(4 * SECOND, Deed.KILLED, "n2", Part.HOLDERS_NODE, "index", 6),
    Event(5 * SECOND, Deed.STARTED, "n2"),
    Event(9 * SECOND, Deed.CONTINUED, "worker-0-0"),
    Event(12 * SECOND, Deed.CALM),
    Event(20 * SECOND, Deed.OVER),
]


def hold(asked: float, granted: float, sure: list[float], over: float, fence: int) -> list[Line]:
    at = [round(one * SECOND) for one in (asked, granted, *sure, over)]
    acts = [Line(one, What.ACTED, "index", fence, checked=one) for one in at[2:-1]]
    asks, gets = Line(at[0], What.ASKED, "index"), Line(at[1], What.GRANTED, "index", fence)
    return [asks, gets, *acts, Line(at[-1], What.LOST, "index", fence)]


@pytest.fixture
def written(tmp_path: Path):
    def writing(*journals: list[Line]) -> Path:
        lives = [Life(number, 0) for number in range(len(journals))]
        (tmp_path / "lives.json").write_bytes(msgspec.json.encode(lives))
        files = {f"{life.name}.jsonl": lines for life, lines in zip(lives, journals, strict=True)}
        for name, lines in {**files, "events.jsonl": EVENTS}.items():
            text = b"".join(msgspec.json.encode(one) + b"\n" for one in lines)
            (tmp_path / name).write_bytes(text)
        return tmp_path

    return writing


def verdict(folder: Path) -> str:
    history = read_history(folder)
    return finding(history, by_fence(history.turns), 2)


def test_who_slept_and_learns_late_is_no_second_holder(written) -> None:
    folder = written(hold(1, 2, [2.5], 9.5, 5), hold(1.5, 8, [8.1], 8.2, 6))
    assert verdict(folder) == (
        "1 baton, 2 workers, 2 grants: never two holders of one; 5.0 s at most without a holder"
    )


def test_who_is_sure_of_what_another_was_granted_is_one(written) -> None:
    folder = written(hold(1, 2, [2.5, 8.5], 9.5, 5), hold(1.5, 8, [8.1], 8.2, 6))
    assert "two held one 1 time;" in verdict(folder)
    holds = by_fence(read_history(folder).turns)["index"]
    assert overlaps(holds) == [Span(8 * SECOND, 8 * SECOND + SECOND // 2)]


def test_a_strike_lasts_until_the_same_process_goes_on(written) -> None:
    history = read_history(written(hold(1, 2, [2.5], 9.5, 5), hold(1.5, 3.5, [], 4.5, 6)))
    node, worker = sorted(history.outages, key=lambda one: one.lane)
    assert (node.lane, node.span, node.batons) == ("n2", Span(4 * SECOND, 5 * SECOND), ["index"])
    assert (worker.lane, worker.span.stop, worker.of_worker) == ("worker-0", 9 * SECOND, True)


@pytest.mark.parametrize("journals", [[], [[Line(2 * SECOND, What.ASKED, "index")]]])
def test_a_run_without_a_grant_is_drawn_too(written, tmp_path: Path, journals) -> None:
    draw(written(*journals), tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_of_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"events\.jsonl and lives\.json"):
        draw(tmp_path, tmp_path / "run.png")
