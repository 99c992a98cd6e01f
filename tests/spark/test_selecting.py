"""The exact k-th of a column of Spark's, against Spark's own sort."""

from ast import literal_eval
from inspect import getdoc
from math import isnan

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

from snowmelt.core.errors import BadOption
from snowmelt_lab.spark import FrameChanged, narrowing, quantiles, select, selecting
from wide import wide

MANY = 3_000
COLUMNS = {
    "beyond a double": "9007199254740992 + id",
    "boolean": "id % 3 = 0",
    "double": "case when id % 9 = 0 then double('inf') when id % 9 = 1 then double('-inf')"
    " when id % 9 = 2 then -0.0D when id % 9 = 3 then 0.0D else sin(id) end",
    "decimal": "cast(xxhash64(id) as decimal(38, 9)) / 1000 * 1000",
    "string": "concat(elt(1 + id % 4, 'z', 'ä', '', '\U0001f600'), hash(id))",
    "binary": "unhex(substr(hex(hash(id)), 1, id % 5))",
    "date": "date_add(date'1969-12-01', cast(hash(id) % 10000 as int))",
    "timestamp": "timestamp_micros(cast(hash(id) as long) * 1003)",
    "wall clock": "cast(timestamp_micros(cast(hash(id) as long) * 1003) as timestamp_ntz)",
    "zipf": "cast(pow(1 + abs(hash(id)) % 1000, -1) * 1000 as int)",
}
TELLING = ("beyond a double", "double", "string")
"""Those in which an order may go wrong most easily."""


@pytest.fixture
def _no_short_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small frames take all scans, too."""
    monkeypatch.setattr(narrowing, "ALL_AT_ONCE", 100)


def frame(spark, expression: str):
    """With a null in eleven rows."""
    column = f"if(id % 11 = 5, null, {expression})"
    return spark.range(0, MANY, numPartitions=3).selectExpr(f"{column} as v")


@pytest.mark.usefixtures("_no_short_cut")
@pytest.mark.parametrize(
    "column", [*TELLING, *wide(*(name for name in COLUMNS if name not in TELLING))]
)
def test_each_type_is_ordered_as_spark_orders_it(spark, column):
    df = frame(spark, COLUMNS[column])
    rows = [row.v for row in df.where("v is not null").orderBy("v").collect()]
    ranks = [1, 2, 700, len(rows) // 2, len(rows)]
    found = select(df, "v", k=ranks)
    assert list(found) == [rows[rank - 1] for rank in ranks]
    assert [type(one) for one in found] == [type(rows[0])] * len(ranks)
    assert (found.count, found.nulls, found.ranks) == (len(rows), MANY - len(rows), tuple(ranks))


def test_quantiles_are_those_of_spark(spark):
    df = frame(spark, "xxhash64(id) % 1000")
    shares = [0, 0.001, 0.25, 0.5, 0.9, 1]
    own = [f"percentile_disc({one}) within group (order by v)" for one in shares]
    assert list(quantiles(df, "v", q=shares)) == list(df.selectExpr(*own).collect()[0])


@pytest.mark.usefixtures("_no_short_cut")
def test_no_number_is_the_greatest_and_nulls_are_left_out(spark):
    df = frame(spark, "if(id % 5 = 0, double('nan'), id)")
    found = select(df, "v", k=[1, 2_182, 2_183, 2_727])
    rows = [row.v for row in df.where("v is not null").orderBy("v").collect()]
    assert found[1] == rows[2_181] == 2_999
    assert isnan(found[2])
    assert isnan(found[3])
    assert (found.count, found.nulls) == (2_727, 273)


@pytest.mark.usefixtures("_no_short_cut")
def test_what_it_took_is_told(spark):
    found = select(frame(spark, "xxhash64(id)"), "v", k=[1_300])
    assert found.scans == 4  # counted, drawn, counted between, collected
    assert found.brought < 1_000
    assert 8 * found.brought / 2 <= found.held < 12 * found.brought


@pytest.mark.usefixtures("_no_short_cut")
def test_equal_values_are_never_brought_but_in_the_sample(spark):
    found = select(frame(spark, "42"), "v", k=[1, 1_300])
    assert (list(found), found.scans) == ([42, 42], 3)
    assert found.brought < 500


@pytest.mark.usefixtures("_no_short_cut")
def test_many_ranks_are_counted_in_several_scans(spark, monkeypatch):
    monkeypatch.setattr(selecting, "CUTS_MAX", 4)
    df = frame(spark, "xxhash64(id) % 500")
    rows = [row.v for row in df.where("v is not null").orderBy("v").collect()]
    ranks = range(2_700, 0, -300)
    assert list(select(df, "v", k=ranks)) == [rows[rank - 1] for rank in ranks]


def test_long_values_are_brought_a_few_at_a_time(spark):
    df = spark.range(200).selectExpr("concat(repeat('x', 2000), id) as v")
    rows = sorted(row.v for row in df.collect())
    found = select(df, "v", k=[1, 100, 200], memory=1 << 16)
    assert list(found) == [rows[0], rows[99], rows[199]]
    assert found.held <= 1 << 16


def test_nothing_asked_is_nothing_found(spark):
    found = select(spark.range(3), "id", k=[])
    assert (list(found), found.count, found.scans) == ([], 3, 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda df: select(df, "v", k=[0]), "k is 0; allowed: whole numbers from 1 on"),
        (lambda df: select(df, "v", k=[2.0]), "k is 2.0; allowed: whole numbers"),
        (lambda df: select(df, "v", k=[True]), "k is True; allowed: whole numbers"),
        (lambda df: select(df, "v", k=5), r"k is 5; allowed: a list .* as \[5\]"),
        (lambda df: select(df, "v", k=[4]), "k is 4; allowed: 1 to 3, as the column has values"),
        (lambda df: select(df, "v", k=range(1, 300)), r"len\(k\) is 299; allowed: up to 200"),
        (lambda df: select(df, "none", k=[1]), "k is 1; allowed: none: the column has no values"),
        (lambda df: quantiles(df, "none", q=[0.5]), "q is 0.5; allowed: none: the column has no"),
        (lambda df: quantiles(df, "v", q=[1.5]), "q is 1.5; allowed: numbers from 0 to 1"),
        (lambda df: quantiles(df, "v", q=[float("nan")]), "q is nan; allowed: numbers"),
        (lambda df: select(df, "list", k=[1]), "type of column list is 'array<bigint>'; allowed"),
        (lambda df: select(df, "map", k=[1]), "type of column map is 'map<"),
        (lambda df: select(df, "lower", k=[1]), "is 'string collate UTF8_LCASE'; allowed"),
        (lambda df: select(df, "v", k=[1], memory=5), "memory is 5; allowed: 65536 bytes or more"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(spark, call, words):
    columns = ("id v", "cast(null as int) none", "array(id) list", "map(id, id) map")
    df = spark.range(3).selectExpr(*columns, "'a' collate UTF8_LCASE lower")
    with pytest.raises(BadOption, match=words):
        call(df)


def test_a_stream_is_refused(spark):
    with pytest.raises(BadOption, match="df is 'a stream'; allowed: a frame that ends"):
        select(spark.readStream.format("rate").load(), "value", k=[1])


def computed_anew(spark, folder, rows):
    """A frame of MANY values; `rows` is told how often it was computed before."""

    def of(batches):
        before = len(list(folder.iterdir()))
        (folder / str(before)).touch()
        for batch in batches:
            values = [row for one in batch["id"].to_pylist() for row in rows(one, before)]
            yield pa.RecordBatch.from_pydict({"v": pa.array(values, pa.int64())})

    return spark.range(0, MANY, numPartitions=1).mapInArrow(of, "v long")


@pytest.mark.usefixtures("_no_short_cut")
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (lambda one, before: [one] if one >= before else [], "had 3000 values in all, and 2998"),
        (lambda one, before: [one * 2 + (before == 3)], "had 511 values in the gaps, and 512 when"),
        (lambda one, before: [one + (one == 1500 and before == 3)], "values .* and others when"),
    ],
)
def test_rows_that_are_others_each_time_are_refused(spark, tmp_path, rows, words):
    with pytest.raises(FrameChanged, match=words):
        select(computed_anew(spark, tmp_path, rows), "v", k=[1_500])


def test_a_frame_that_fits_at_once_is_what_it_was_then(spark, tmp_path):
    df = computed_anew(spark, tmp_path, lambda one, before: [one + 10 * before])
    assert list(select(df, "v", k=[1])) == [10]


def test_chance_with_a_seed_of_its_own_is_no_change(spark):
    df = spark.range(MANY).select(F.rand().alias("v"))
    assert list(select(df, "v", k=[7])) == list(select(df, "v", k=[7]))


@pytest.mark.parametrize("function", [select, quantiles])
def test_the_examples_of_docstrings_are_right(spark, function):
    lines = [line[4:] for line in getdoc(function).splitlines() if line.startswith("    ")]
    given = {"spark": spark, "select": select, "quantiles": quantiles}
    exec("\n".join(lines[:-1]), given)
    expression, _, expected = lines[-1].partition("  # ")
    assert eval(expression, given) == literal_eval(expected)
