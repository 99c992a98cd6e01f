"""The whole way: what is found agrees with what was made, within the derived acceptance."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import numpy as np
import pytest
import ufmulti
from ufmulti.acceptance import (
    accepted,
    background_share,
    decay_acceptance,
    expected,
    expected_of,
    mass_sigma,
    window_share,
)
from ufmulti.generate import generate, truth
from ufmulti.histogram import draw, find_peak
from ufmulti.pairs import pairs_table, select_bodies
from ufmulti.reconstruct import reconstruct_bodies

EVENTS = 10_000


@pytest.fixture(scope="module")
def kept():
    bodies, _ = select_bodies(reconstruct_bodies(generate(0, EVENTS))[0])
    return pairs_table(bodies)[0]


@pytest.fixture(scope="module")
def numbers(kept) -> np.ndarray:
    return kept["event"].to_numpy()


def test_the_number_found_agrees_with_what_was_derived(numbers: np.ndarray) -> None:
    decays, wanted = truth(0, EVENTS), expected(EVENTS)
    true = np.isin(numbers, decays.number)
    assert abs(len(decays.number) - wanted.made) < 4 * wanted.made_sigma
    assert abs(accepted(decays).sum() - wanted.accepted) < 4 * wanted.accepted_sigma
    assert abs(true.sum() - wanted.found) < 4 * wanted.found_sigma
    assert abs((~true).sum() - wanted.background) < 4 * wanted.background_sigma
    found, sigma = expected_of(len(decays.number))
    assert abs(true.sum() - found) < 4 * sigma
    assert sigma < found / 5


def test_only_decays_within_acceptance_are_found_with_their_mass(kept, numbers) -> None:
    decays = truth(0, EVENTS)
    _, here, there = np.intersect1d(numbers, decays.number, return_indices=True)
    assert (accepted(decays)[there]).mean() > 0.95
    off = kept["mass"].to_numpy()[here] - decays.mass[there]
    assert abs(off.mean()) < 5 * mass_sigma() / np.sqrt(len(off))
    assert 0.75 * mass_sigma() < off.std() < 1.35 * mass_sigma()


def test_the_acceptance_agrees_with_very_many_decays_thrown() -> None:
    decays = truth(0, 1_000_000, seed=5)
    share, many = decay_acceptance(), len(decays.number)
    assert abs(accepted(decays).mean() - share) < 4 * np.sqrt(share * (1 - share) / many)
    inside = (decays.mass > 60) & (decays.mass < 120)
    share = window_share()
    assert abs(inside.mean() - share) < 4 * np.sqrt(share * (1 - share) / many)


def test_the_peak_lies_where_it_was_made_and_the_picture_is_one(kept, tmp_path: Path) -> None:
    peak = draw(tmp_path / "peak.png", kept["mass"].to_numpy(), EVENTS)
    assert peak is not None
    assert abs(peak.position - 91.2) < 4 * peak.sigma < 1.5
    wanted = expected(EVENTS)
    assert abs(peak.decays - wanted.found) < 5 * wanted.found_sigma
    assert (tmp_path / "peak.png").read_bytes().startswith(b"\x89PNG")


def test_a_peak_that_was_moved_is_seen_there(kept) -> None:
    still, moved = find_peak(kept["mass"].to_numpy()), find_peak(kept["mass"].to_numpy() + 1.0)
    assert still is not None
    assert moved is not None
    assert moved.position - still.position == pytest.approx(1.0, abs=0.15)


def test_background_is_neither_nothing_nor_all() -> None:
    assert 0.2 < background_share() * EVENTS / expected(EVENTS).found < 1.0


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(ufmulti.__path__)])
def test_examples_in_docstrings_run(name: str) -> None:
    result = doctest.testmod(
        importlib.import_module(f"ufmulti.{name}"), optionflags=doctest.ELLIPSIS
    )
    assert result.failed == 0
