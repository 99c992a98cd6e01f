"""Folders that only the driver's machine has: what executors write there is refused beforehand."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.bench import Bench, bench_of
from tests.cluster.test_standalone import RUN


def can_hide() -> bool:
    """Whether a process may be given a view of the disks of its own."""
    trial = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /mnt"]
    try:
        return subprocess.run(trial, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not can_hide(), reason="needs mounts of a process's own"),
]


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("driver-only")


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory, hidden: Path) -> Iterator[Bench]:
    with bench_of(tmp_path_factory.mktemp("spark"), hidden) as made:
        yield made


def test_parquet_in_a_folder_that_executors_do_not_see_is_refused_before_the_first_batch(
    apart: Bench, hidden: Path
) -> None:
    apart.queues.fifo("single").put_many([b"1", b"2"])
    said = apart.settings("parquet", **{"spark.master": apart.spark.url})
    variables = said | {"PARQUET": str(hidden / "out")}
    where = ("--url", apart.url, "--checkpoints", str(apart.folder / "places"))
    done = apart.run(*RUN, *where, **variables)
    assert done.returncode == 2
    assert (
        f"parquet of stage write is '{hidden / 'out'}'; allowed: a folder that all" in done.stderr
    )
    assert apart.queues.fifo("single").stats().ready == 2


def test_of_a_checkpoint_that_executors_do_not_see_is_warned(apart: Bench, hidden: Path) -> None:
    apart.queues.fifo("single").put(b"3")
    said = apart.settings("places-hidden", **{"spark.master": apart.spark.url})
    variables = said | {"PARQUET": str(apart.folder / "seen")}
    words = ("--url", apart.url, "--checkpoints", str(hidden), "--stage", "double")
    done = apart.run(*RUN, *words, **variables)
    assert done.returncode == 0, done.stderr
    assert "checkpoints is" in done.stderr
    assert "it serves stages that remember nothing of earlier rows" in done.stderr
