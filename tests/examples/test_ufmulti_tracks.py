"""Tracks: a known one is found as it was, and odd events harm nobody."""

import numpy as np
import pyarrow as pa
import pytest
from ufmulti.fitting import curvature_sigma
from ufmulti.generate import CHUNK, Marks, generate, stored, truth
from ufmulti.layout import RAW, TRACK, TRACKS, Events
from ufmulti.pairs import pairs_table, select, select_bodies
from ufmulti.reconstruct import TOGETHER, reconstruct, reconstruct_bodies
from ufmulti.tracker import BEND, LAYERS, RADII, crossing, curvature


def lone_tracks(charge, pt, eta, phi, missing: tuple[int, ...] = ()) -> Events:
    """One event a track, its hits unsmeared, from the height of 2 cm."""
    k = curvature(np.asarray(charge), np.asarray(pt, float))[:, None]
    slope = np.sinh(np.asarray(eta, float))[:, None]
    at, z = crossing(k, np.asarray(phi, float)[:, None], np.full_like(k, 0.02), slope, RADII)
    kept = np.ones(at.shape, bool)
    kept[:, list(missing)] = False
    event, layer = np.nonzero(kept)
    return stored(np.arange(len(at), dtype=np.uint64), Marks(event, layer, at[kept], z[kept]))


@pytest.mark.parametrize("missing", [(), (4,), (3, 7)])
def test_a_perfect_track_is_fitted_to_what_it_was(missing: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    n = 500
    charge = rng.choice([1, -1], n)
    pt, eta = 0.5 * 200 ** rng.random(n), rng.uniform(-1.5, 1.5, n)
    phi = rng.uniform(-np.pi, np.pi, n)
    phi[:2] = 3.14159, -3.14159  # across the turn's end
    tracks = reconstruct(lone_tracks(charge, pt, eta, phi, missing))
    assert np.diff(tracks.first).tolist() == [1] * n
    rows = tracks.rows
    assert rows["charge"].tolist() == charge.tolist()
    assert set(rows["hits"]) == {LAYERS - len(missing)}
    np.testing.assert_allclose(rows["pt"], pt, rtol=1e-4)
    np.testing.assert_allclose(rows["eta"], eta, atol=2e-4)
    assert np.abs(np.sin(rows["phi"] - phi)).max() < 1e-5


@pytest.mark.parametrize("missing", [(0,), (9,), (2, 3, 4)])
def test_a_track_without_an_end_or_three_of_its_hits_is_lost(missing: tuple[int, ...]) -> None:
    assert len(reconstruct(lone_tracks([1], [30.0], [0.5], [1.0], missing)).rows) == 0


def test_the_fit_is_as_exact_as_its_closed_form() -> None:
    events, _ = RAW.decode(generate(0, 10_000))
    tracks = reconstruct(events)
    chi2 = tracks.rows["chi2"] / (2.0 * tracks.rows["hits"] - 4)
    assert abs(chi2.mean() - 1) < 0.01
    decays = truth(0, 10_000)
    pulls = []
    for side, charge in ((0, 1), (1, -1)):
        hard = (tracks.rows["pt"] > 15) & (tracks.rows["charge"] == charge)
        event, rows = tracks.owners()[hard], tracks.rows[hard]
        event, at = np.unique(event, return_index=True)
        _, here, there = np.intersect1d(event, decays.number.astype(int), return_indices=True)
        off = BEND / rows["pt"][at][here] - BEND / decays.pt[there, side]
        pulls.append(off / curvature_sigma())
    pulls = np.concatenate(pulls)
    pulls = pulls[np.abs(pulls) < 5]
    assert len(pulls) > 150
    assert abs(pulls.mean()) < 5 / np.sqrt(len(pulls))
    assert 0.85 < pulls.std() < 1.2


def test_an_event_is_the_same_however_it_is_asked_for() -> None:
    whole = generate(0, 3 * CHUNK)
    parts = [generate(first, 70).to_pylist() for first in (0, 960, 1999)]
    assert [whole[at : at + 70].to_pylist() for at in (0, 960, 1999)] == parts
    assert generate(0, 5, seed=2).to_pylist() != parts[0][:5]
    decays, late = truth(0, 3 * CHUNK), truth(960, 2000)
    inside = (decays.number >= 960) & (decays.number < 2960)
    assert late.mass.tolist() == decays.mass[inside].tolist()
    assert len(generate(5, 0)) == len(truth(5, 0).number) == 0
    with pytest.raises(ValueError, match="counted from 0"):
        generate(-1, 2)


def test_tracks_do_not_depend_on_what_lies_beside_them_in_a_batch() -> None:
    bodies = generate(0, TOGETHER + 700)
    whole, _ = reconstruct_bodies(bodies)
    parts = [reconstruct_bodies(bodies[at : at + 450])[0] for at in range(0, len(bodies), 450)]
    assert pa.concat_arrays(parts).equals(whole)


def test_hits_in_any_order_give_the_same_tracks() -> None:
    events, _ = RAW.decode(generate(0, 300))
    order = np.lexsort((np.random.default_rng(0).random(len(events.rows)), events.owners()))
    mixed = reconstruct(Events(events.number, events.first, events.rows[order]))
    straight = reconstruct(events)
    assert mixed.first.tolist() == straight.first.tolist()
    assert np.array_equal(mixed.rows, straight.rows)


def test_events_without_hits_keep_their_place() -> None:
    full = RAW.decode(generate(0, 3))[0]
    empty = np.zeros(0, np.int64)
    none = stored(np.array([8, 9], np.uint64), Marks(empty, empty, np.zeros(0), np.zeros(0)))
    first = np.concatenate([none.first, full.first, [full.first[-1]] * 2])
    number = np.array([8, 9, 0, 1, 2, 10, 11], np.uint64)
    tracks = reconstruct(Events(number, first[1:], full.rows))
    assert tracks.number.tolist() == number.tolist()
    counts = np.diff(tracks.first)
    assert counts[[0, 1, 5, 6]].tolist() == [0] * 4
    assert counts[2:5].tolist() == np.diff(reconstruct(full).first).tolist()
    assert len(reconstruct(none).rows) == 0


def test_a_batch_of_nothing_goes_through_all_stages() -> None:
    for bodies in (pa.array([], pa.binary()), pa.array([None, b"?"], pa.binary())):
        tracks, readable = reconstruct_bodies(bodies)
        assert (len(tracks), readable.tolist()) == (0, [False] * len(bodies))
        kept, _ = select_bodies(tracks)
        table, _ = pairs_table(kept)
        assert table.num_rows == 0


def test_of_two_pairs_the_harder_one_is_told() -> None:
    rows = np.zeros(3, TRACK)
    rows["charge"], rows["pt"], rows["phi"] = [1, -1, -1], [50, 40, 45.6], [0, 3, 3]
    kept = select(Events(np.array([4], np.uint64), np.array([0, 3]), rows))
    assert kept.rows["pt"].tolist() == [[50.0, np.float32(45.6)]]
    rows["charge"] = 1
    assert len(select(Events(np.array([4], np.uint64), np.array([0, 3]), rows))) == 0
    assert (
        len(
            TRACKS.decode(TRACKS.encode(Events(np.array([4], np.uint64), np.array([0, 3]), rows)))[
                0
            ]
        )
        == 1
    )


@pytest.mark.parametrize("layer", [0, 5, 9])
@pytest.mark.parametrize("off", [-0.3e-3, 0.3e-3])
def test_a_stray_hit_beside_a_track_neither_bends_nor_doubles_it(layer: int, off: float) -> None:
    k, one = curvature(np.array([1]), np.array([40.0])), np.ones(1)
    phi, z = crossing(k[:, None], 1.0, 0.02 * one, np.sinh(0.5) * one, RADII)
    phi = np.append(phi[0], phi[0, layer] + off / RADII[layer])
    marks = Marks(
        np.zeros(11, int), np.append(np.arange(10), layer), phi, np.append(z, z[0, layer])
    )
    tracks = reconstruct(stored(np.zeros(1, np.uint64), marks))
    assert len(tracks.rows) == 1
    assert tracks.rows["hits"][0] == 10
    assert tracks.rows["pt"][0] == pytest.approx(40, rel=1e-3)
    assert tracks.rows["chi2"][0] < 1
