"""Pipelines: what may be said of stages, how they end, and that every item goes through once."""

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from unittest.mock import MagicMock

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.client.embedded.face import EmbeddedCluster
from snowmelt.client.queue.group_steps import Mark
from snowmelt.core.errors import BadOption, DataLost, NoSuchQueue, StoreBusy
from snowmelt.protocols.queue.api.calls import Located
from snowmelt.spark.failing import StageFailed, cause_of
from snowmelt.spark.graph import in_order
from snowmelt.spark.pipeline import Pipeline
from snowmelt.spark.queries import SparkRun
from snowmelt.spark.stages import WorkerStage
from snowmelt.spark.standing import State
from snowmelt.spark.workers import WorkerRun


def same(body: bytes) -> list[bytes]:
    return [body]


def louder(rows: DataFrame) -> DataFrame:
    return rows.select(concat(col("value"), col("value")).alias("value"))


def tagged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        tags = pc.binary_join_element_wise(batch["queue"], batch["value"].cast("string"), "/")
        yield pa.record_batch({"value": tags})


def numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        size = pc.binary_length(batch["value"])
        yield pa.record_batch({"size": size, "place": batch["position"]})


# --- what may be said -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"name": "a.b"}, "stage is 'a.b'"),
        ({"name": "first"}, "a name that is new to pipeline p"),
        ({"name": "x" * 46}, "at most 46 letters"),
        ({"source": "no/queue"}, "queue is 'no/queue'"),
        ({"sink": "no/queue"}, "queue is 'no/queue'"),
        ({"sink": None, "worker": None, "transform": louder}, "without a target"),
        ({"worker": None}, "without transform=, arrow= and worker="),
        ({"arrow": tagged}, "with worker= and arrow="),
        ({"worker": None, "arrow": 7}, "arrow of stage new is 7; allowed: a function"),
        ({"worker": None, "transform": louder, "columns": "n int"}, "none without arrow="),
        ({"worker": None, "transform": louder, "parquet": "out"}, "with several targets"),
        ({"transform": louder}, "with worker= and transform="),
        ({"fail_on_other_content": False}, "with worker= and fail_on_other_content="),
        ({"worker": 7}, "worker of stage new is 7; allowed: a function"),
        ({"rows_per_batch": 0}, "rows_per_batch of stage new is 0"),
        ({"bytes_per_batch": 0}, "bytes_per_batch of stage new is 0"),
        ({"partitons": 2}, "'partitons'; allowed: transform, arrow"),
    ],
)
def test_what_can_not_be_is_refused_when_it_is_said(
    arguments: dict[str, object], complaint: str
) -> None:
    pipeline = Pipeline("p").stage("first", source="in", sink="mid", worker=same)
    said = {"name": "new", "source": "mid", "sink": "out", "worker": same} | arguments
    if said["worker"] is None:
        del said["worker"]
    with pytest.raises(BadOption, match=complaint.replace("(", r"\(")):
        pipeline.stage(said.pop("name"), **said)
    assert len(pipeline.stages) == 1


@pytest.mark.parametrize("fail", [True, False])
def test_a_stage_says_to_its_sink_whether_other_rows_end_it(fail: bool) -> None:
    how = {"transform": louder, "fail_on_other_content": fail}
    (stage,) = Pipeline("p").stage("s", source="in", sink="out", **how).stages
    rows = MagicMock()
    run = SparkRun(stage, "p.s", MagicMock(), {"url": "u"}, "checkpoint", Path("log"))
    run._writer(rows)
    writer = rows.writeStream.queryName.return_value.option.return_value.trigger.return_value
    writer.option.assert_called_once_with("failOnOtherContent", str(fail).lower())


def test_stages_stand_after_those_that_fill_their_source() -> None:
    pipeline = (
        Pipeline("p")
        .stage("last", source="c", worker=same)
        .stage("left", source="a", sink="c", worker=same)
        .stage("right", source="b", sink="c", worker=same)
        .stage("first", source="in", sink="a", worker=same)
    )
    order = [stage.name for stage in in_order(pipeline.stages)]
    assert order == ["right", "first", "left", "last"]


def test_a_circle_is_never_drained_and_says_who_is_in_it(tmp_path: Path) -> None:
    pipeline = (
        Pipeline("p")
        .stage("in", source="raw", sink="a", worker=same)
        .stage("there", source="a", sink="b", worker=same)
        .stage("back", source="b", sink="a", worker=same)
        .stage("out", source="b", worker=same)
    )
    with pytest.raises(BadOption, match="there, back run in one"):
        pipeline.start("snowmelt://127.0.0.1:1", drain=True, checkpoints=tmp_path)


def test_an_unknown_stage_and_a_misspelled_option_are_named() -> None:
    pipeline = Pipeline("p").stage("first", source="in", sink="out", worker=same)
    with pytest.raises(BadOption, match="stage is 'frist'; allowed: first"):
        pipeline.start("snowmelt://127.0.0.1:1", stages=["frist"])
    with pytest.raises(BadOption, match="'dran'; allowed: drain"):
        pipeline.start("snowmelt://127.0.0.1:1", dran=True)
    with pytest.raises(BadOption, match="'empty'"):
        Pipeline("empty").start("snowmelt://127.0.0.1:1")
    with pytest.raises(BadOption, match="stage first is a worker"):
        pipeline.start("snowmelt://127.0.0.1:1", checkpoints="hdfs://big/place")


# --- a worker stage: once, whatever happens -------------------------------------------------------


class Crashed(BaseException):
    """The process died here."""


@pytest.fixture
def queues(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    with snowmelt.open(tmp_path / "queues") as cluster:
        yield cluster


def worker_run(
    queues: EmbeddedCluster, tmp_path: Path, worker: Callable[[bytes], Iterable[bytes]] = same
) -> WorkerRun:
    stage = WorkerStage("copy", "in", worker, "out", rows_per_batch=2, partitions=1)
    return WorkerRun(stage, "p.copy", queues, tmp_path / "place", tmp_path / "copy.log")


def turned_out(run: WorkerRun) -> None:
    while run.turn():
        pass


def taken(queues: EmbeddedCluster, queue: str) -> list[bytes]:
    with queues.fifo(queue).get_many(1000, timeout=0) as items:
        return [item.body for item in items]


def test_a_worker_has_no_more_bytes_in_hand_than_its_batch_may_have(
    queues: EmbeddedCluster, tmp_path: Path
) -> None:
    for number in range(5):
        queues.fifo("in").put(b"%d" % number * 10_000)
    stage = WorkerStage("copy", "in", same, "out", 1000, 1, bytes_per_batch=25_000)
    run = WorkerRun(stage, "p.copy", queues, tmp_path / "place", tmp_path / "copy.log")
    made = []
    while run.turn():
        made.append(run.made)
    assert made == [2, 4, 5]
    small = WorkerStage("again", "out", same, None, 1000, 1, bytes_per_batch=1)
    run = WorkerRun(small, "p.again", queues, tmp_path / "again", tmp_path / "again.log")
    turned_out(run)
    assert run.made == 5  # one at a time, however large it is


@pytest.mark.parametrize("place", ["written down", "staged", "published", "acknowledged"])
def test_a_crash_anywhere_puts_every_item_once(
    queues: EmbeddedCluster, tmp_path: Path, place: str
) -> None:
    bodies = [b"%d" % number for number in range(5)]
    queues.fifo("in").put_many(bodies)
    first = worker_run(queues, tmp_path)
    keep, locate = first._memory.keep, first._group.locate
    kept: list[Mark] = []
    located: list[Mark] = []

    def dying_keep(done: Mark, end: Mark) -> None:
        if place == "published" and done == end:
            raise Crashed
        keep(done, end)
        kept.append(end)
        if place == "written down" or (place == "acknowledged" and len(kept) == 3):
            raise Crashed

    def dying_locate(start: Mark, end: Mark) -> object:
        located.append(end)
        if place == "staged" and len(located) == 2:
            raise Crashed
        return locate(start, end)

    first._memory.keep = dying_keep
    first._group.locate = dying_locate
    with pytest.raises(Crashed):
        turned_out(first)
    first.stop()
    second = worker_run(queues, tmp_path)
    turned_out(second)
    second.stop()
    assert taken(queues, "out") == bodies
    told = queues.fifo("in").stats()
    assert (told.ready, told.assigned) == (0, 0)


def test_a_lost_place_is_told_and_a_released_group_begins_anew(
    queues: EmbeddedCluster, tmp_path: Path
) -> None:
    source = queues.fifo("in")
    source.put_many([b"one", b"two", b"three"])
    first = worker_run(queues, tmp_path)
    assert first.turn()
    assert first.turn()
    first.stop()
    (tmp_path / "place" / "mark.json").unlink()
    second = worker_run(queues, tmp_path)
    second.start()
    second._thread.join(10)
    with pytest.raises(StageFailed, match=r"snowmelt groups release in p\.copy"):
        second.check()
    second.stop()
    assert source.group("p.copy").release() == 1  # it was published, and not acknowledged
    source.put_many([b"four"])
    third = worker_run(queues, tmp_path)
    turned_out(third)
    third.stop()
    assert taken(queues, "out") == [b"one", b"two", b"three", b"three", b"four"]


@pytest.mark.parametrize("fail", [True, False])
def test_a_lost_item_ends_a_stage_unless_it_is_told_to_go_on(
    queues: EmbeddedCluster, tmp_path: Path, fail: bool
) -> None:
    queues.fifo("in").put_many([b"one", b"two"])
    stage = WorkerStage("copy", "in", same, "out", 2, 1, fail_on_loss=fail)
    run = WorkerRun(stage, "p.copy", queues, tmp_path / "place", tmp_path / "copy.log")
    locate = run._group.locate

    def losing(start: Mark, end: Mark) -> Located:
        (span,) = locate(start, end).spans
        return Located((msgspec.structs.replace(span, stop=span.stop - 1),), 1, 3)

    run._group.locate = losing
    if fail:
        with pytest.raises(DataLost, match=r"1 of 2 items of queue 'in' .* fail_on_loss=False"):
            turned_out(run)
        assert queues.fifo("in").stats().assigned == 2
    else:
        turned_out(run)
        assert (taken(queues, "out"), run.lost) == ([b"one"], 1)
    run.stop()


def test_a_stage_has_one_process_and_its_own_place(queues: EmbeddedCluster, tmp_path: Path) -> None:
    first = worker_run(queues, tmp_path)
    with pytest.raises(StoreBusy, match="another process runs"):
        worker_run(queues, tmp_path)
    first._memory.keep(Mark(1, 1), Mark(1, 1))
    first.stop()
    stage = WorkerStage("other", "in", same, "out", rows_per_batch=2, partitions=1)
    with pytest.raises(BadOption, match=r"group p\.copy on queue in"):
        WorkerRun(stage, "p.other", queues, tmp_path / "place", tmp_path / "log")


def dividing(body: bytes) -> list[bytes]:
    return [b"%d" % (1 // len(body))]


@pytest.mark.parametrize(
    ("worker", "complaint"),
    [
        (dividing, "ZeroDivisionError: .*, at item 1 of in"),
        (lambda body: body, "return a list of bytes; this has a int, at item 0 of in"),
    ],
)
def test_a_failing_worker_names_the_item_and_the_log(
    queues: EmbeddedCluster,
    tmp_path: Path,
    worker: Callable[[bytes], Iterable[bytes]],
    complaint: str,
) -> None:
    queues.fifo("in").put_many([b"1", b""])
    ended = worker_run(queues, tmp_path, worker)
    ended.start()
    ended._thread.join(10)
    with pytest.raises(StageFailed, match=f"stage copy failed: .*{complaint}") as failure:
        ended.check()
    ended.stop()
    assert str(tmp_path / "copy.log") in str(failure.value)
    assert "Traceback" in (tmp_path / "copy.log").read_text()
    assert queues.fifo("in").stats().assigned == 2


# --- all together ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(2, tmp_path_factory.mktemp("pipelines"), 0.5) as cluster:
        cluster.start()
        yield cluster


def bodies_in(cluster: LocalCluster, queue: str) -> list[bytes]:
    with snowmelt.connect(cluster.url) as connection:
        seen = connection.fifo(queue).peek(10_000)
    return [one.body for one in seen]


def test_workers_drain_in_two_processes_parts(cluster: LocalCluster, tmp_path: Path) -> None:
    """Who runs the later stage waits for the earlier one, though that is run by somebody else."""
    with snowmelt.connect(cluster.url) as connection:
        connection.fifo("apart-in", replicas=2).put_many([b"%d" % one for one in range(3000)])
    pipeline = (
        Pipeline("apart")
        .stage("first", source="apart-in", sink="apart-mid", worker=same)
        .stage("twice", source="apart-mid", sink="apart-out", worker=lambda one: [one, one])
    )
    elsewhere: list[object] = []
    ended = threading.Event()

    def later() -> None:
        begun.wait(20)
        elsewhere.extend(
            pipeline.run(cluster.url, drain=True, checkpoints=tmp_path, stages=["first"])
        )
        ended.set()

    begun = threading.Event()
    thread = threading.Thread(target=later)
    thread.start()
    first, twice = pipeline.run(
        cluster.url,
        drain=True,
        checkpoints=tmp_path,
        stages=["twice"],
        show=lambda _: begun.set(),
    )
    thread.join(20)
    assert ended.is_set()
    assert (first.state, first.taken, first.made) == (State.ELSEWHERE, 3000, None)
    assert (twice.state, twice.taken, twice.made) == (State.DONE, 3000, 6000)
    out = bodies_in(cluster, "apart-out")
    assert out == [b"%d" % (one // 2) for one in range(6000)]
    with snowmelt.connect(cluster.url) as connection:
        assert connection.fifo("apart-mid").stats().settings.replicas == 2


def test_a_source_that_is_not_there_is_named(cluster: LocalCluster, tmp_path: Path) -> None:
    pipeline = Pipeline("p").stage("first", source="nobody", sink="out", worker=same)
    with pytest.raises(NoSuchQueue, match="'nobody', the source of stage first"):
        pipeline.run(cluster.url, drain=True, checkpoints=tmp_path)


def test_spark_and_workers_drain_together_and_go_on_later(
    cluster: LocalCluster, tmp_path: Path, spark: SparkSession
) -> None:
    pipeline = (
        Pipeline("both")
        .stage("louder", source="both-in", sink="both-mid", transform=louder, rows_per_batch=200)
        .stage("plus", source="both-mid", sink="both-good", worker=lambda one: [one + b"+"])
        .stage("write", source="both-good", parquet=str(tmp_path / "out"))
    )
    with snowmelt.connect(cluster.url) as connection:
        source = connection.fifo("both-in")
        for start in (0, 300):
            source.put_many([b"%d," % one for one in range(start, start + 300)])
            standings = pipeline.run(
                cluster.url, drain=True, checkpoints=tmp_path / "places", session=spark
            )
            assert [one.state for one in standings] == [State.DONE] * 3
            assert [one.taken for one in standings] == [300] * 3
            assert [one.made for one in standings] == [300] * 3
    written = [bytes(row.value) for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert sorted(written) == sorted(b"%d,%d,+" % (one, one) for one in range(600))


def test_a_batch_has_no_more_bytes_than_a_stage_says(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    with snowmelt.connect(cluster.url) as queues:
        queues.fifo("large").put_many([bytes(100_000)] * 10)
    taken: list[int] = []
    pipeline = Pipeline("bounded").stage(
        "keep",
        source="large",
        write=lambda rows, _: taken.append(rows.count()),
        bytes_per_batch=350_000,
    )
    pipeline.run(cluster.url, drain=True, checkpoints=tmp_path / "places", session=spark)
    assert sum(taken) == 10
    assert max(taken) == 3


@pytest.mark.wide
def test_functions_within_the_read_make_other_columns_of_all_rows(
    cluster: LocalCluster, tmp_path: Path, spark: SparkSession
) -> None:
    out = str(tmp_path / "out")
    pipeline = (
        Pipeline("inside")
        .stage("tag", source="in-in", sink="in-mid", arrow=tagged, rows_per_batch=400)
        .stage("more", source="in-mid", sink="in-good", arrow=tagged, transform=louder)
        .stage(
            "size", source="in-good", arrow=numbered, columns="place long, size int", parquet=out
        )
    )
    with snowmelt.connect(cluster.url) as connection:
        connection.fifo("in-in").put_many([b"%04d" % one for one in range(600)])
        standings = pipeline.run(
            cluster.url, drain=True, checkpoints=tmp_path / "places", session=spark
        )
    assert [(one.taken, one.made) for one in standings] == [(600, 600)] * 3
    rows = [tuple(row) for row in spark.read.parquet(out).collect()]
    assert sorted(rows) == [(place, 2 * len("in-mid/in-in/0000")) for place in range(600)]


def test_what_a_function_within_the_read_does_wrong_is_told_in_a_sentence(
    cluster: LocalCluster, tmp_path: Path, spark: SparkSession
) -> None:
    def fails(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("no hit here")
        yield from batches

    with snowmelt.connect(cluster.url) as connection:
        connection.fifo("wrong-in").put(b"one")
    for name, function, told in (
        ("raises", fails, "ValueError: no hit here"),
        ("others", numbered, "columns is 'value'; allowed: size, place"),
    ):
        pipeline = Pipeline(name).stage("fit", source="wrong-in", sink="x", arrow=function)
        with pytest.raises(StageFailed, match=told):
            pipeline.run(cluster.url, drain=True, checkpoints=tmp_path, session=spark)
        with snowmelt.connect(cluster.url) as connection:
            connection.fifo("wrong-in").group(f"{name}.fit").release()


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_a_failing_transform_is_told_in_a_sentence(
    cluster: LocalCluster, tmp_path: Path, spark: SparkSession
) -> None:
    def fails(batches: Iterable[object]) -> Iterator[object]:
        raise ValueError("no track here")
        yield from batches

    with snowmelt.connect(cluster.url) as connection:
        connection.fifo("fails-in").put(b"one")
    pipeline = Pipeline("fails").stage(
        "fit",
        source="fails-in",
        sink="fails-out",
        transform=lambda rows: rows.select("value").mapInArrow(fails, "value binary"),
    )
    with pytest.raises(StageFailed, match="stage fit failed: ValueError: no track here") as told:
        pipeline.run(cluster.url, drain=True, checkpoints=tmp_path, session=spark)
    assert "\n" not in str(told.value)
    assert "in fails" in (tmp_path / "fails" / "fit.log").read_text()


def test_the_last_exception_of_python_is_the_cause() -> None:
    told = (
        "Traceback (most recent call last):\n  File\nKeyError: 'a'\n\nDuring handling\n\n"
        "Traceback (most recent call last):\n  File\nsnowmelt.core.errors.Full: no room\n\tat x"
    )
    assert cause_of(told) == "Full: no room"
