"""`snowmelt backup`, `restore` and `export`, as a person uses them."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import snowmelt


def said(*words: str, code: int = 0) -> tuple[bytes, str]:
    told = subprocess.run(
        [sys.executable, "-m", "snowmelt", *words], capture_output=True, timeout=120, check=False
    )
    assert told.returncode == code, told.stderr.decode()
    return told.stdout, told.stderr.decode()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    path = tmp_path / "queues"
    with snowmelt.open(path) as cluster:
        orders = cluster.fifo("orders", max_deliveries=1)
        orders.put_many([b"dead", b"one", b"\xff\x00", "schön".encode()], headers={"of": "many"})
        orders.get().nack(reason="broken")
        orders.put(b"late", delay=3600)
        orders.get()
        jobs = cluster.priority("jobs", largest_first=True)
        jobs.put_many([(3, b"three"), (2**60 + 1, b"most")])
        cluster.priority("dues", priorities=float).put(b"half", priority=0.5)
        log = cluster.fifo("log", partitions=3)
        for one in range(9):
            log.put(b"%d" % one)
    return str(path)


def test_queues_go_into_files_and_back(folder: str, tmp_path: Path) -> None:
    to, other = str(tmp_path / "saturday"), str(tmp_path / "other")
    out, _ = said("backup", to, "--data", folder)
    assert "orders: 5 items" in out.decode()
    assert sorted(one.name for one in Path(to).iterdir()) == [
        "dues.backup", "jobs.backup", "log.backup", "orders.backup",
    ]  # fmt: skip
    out, _ = said("restore", to, "--data", other, "--json")
    assert [one["queue"] for one in json.loads(out)["restored"]] == [
        "dues",
        "jobs",
        "log",
        "orders",
    ]
    rows = [said("export", "--data", place)[0] for place in (folder, other)]
    assert rows[0] == rows[1]
    _, err = said("restore", f"{to}/orders.backup", "--data", other, code=2)
    assert "is there" in err
    assert "--as" in err
    said("restore", f"{to}/orders.backup", "--as", "orders2", "--data", other)
    _, err = said("backup", f"{to}/x.backup", "--data", folder, code=2)
    assert "one queue by its name" in err
    torn = Path(to) / "orders.backup"
    torn.write_bytes(torn.read_bytes()[:-3])
    _, err = said("restore", str(torn), "--as", "torn", "--data", other, code=7)
    assert "was cut off" in err


def test_items_are_told_as_json_lines(folder: str, tmp_path: Path) -> None:
    out, err = said("export", "orders", "--data", folder)
    rows = [json.loads(line) for line in out.splitlines()]
    assert err.endswith("5 items\n")
    assert [row["position"] for row in rows] == [0, 1, 2, 3, 4]
    assert rows[0]["body"] == "dead"
    assert (rows[0]["dead"], rows[0]["failures"], rows[0]["reason"]) == (True, 1, "broken")
    assert rows[1]["headers"] == {"of": "many"}
    assert rows[2]["body_base64"] == "/wA="
    assert rows[3]["body"] == "schön"
    assert rows[4]["due"] > rows[4]["put_at"]
    out, _ = said("export", "jobs", "dues", "--data", folder)
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["body"]: row["priority"] for row in rows} == {
        "three": 3, "most": 2**60 + 1, "half": 0.5,
    }  # fmt: skip
    out, _ = said("export", "log", "--data", folder)
    rows = [json.loads(line) for line in out.splitlines()]
    in_order = sorted(rows, key=lambda row: row["position"])
    assert [row["body"] for row in in_order] == [str(one) for one in range(9)]
    to = tmp_path / "rows.jsonl"
    said("export", "orders", "--data", folder, "--to", str(to))
    assert len(to.read_bytes().splitlines()) == 5
    _, err = said("export", "orders", "--data", folder, "--to", str(to), code=2)
    assert "not there yet" in err
    said("export", "nothing", "--data", folder, code=9)


def test_items_are_told_as_arrow(folder: str, tmp_path: Path) -> None:
    arrow: Any = pytest.importorskip("pyarrow")
    said("backup", str(tmp_path / "b"), "--data", folder)
    rows: list[dict[str, Any]] = []
    for name in ("orders", "jobs", "dues"):
        out, _ = said("export", str(tmp_path / "b" / f"{name}.backup"), "--format", "arrow")
        rows += arrow.ipc.open_stream(io.BytesIO(out)).read_all().to_pylist()
    bodies = {row["body"]: row for row in rows}
    assert bodies[b"dead"]["reason"] == "broken"
    assert bodies[b"\xff\x00"]["headers"] == [("of", b"many")]
    assert bodies[b"late"]["due"] is not None
    assert bodies[b"most"]["priority"] == 2**60 + 1
    assert bodies[b"half"]["priority_float"] == 0.5
