"""A run between sites is the run of a simulation, to the bit and to the byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.sites import HeldOut, LocalCarrier, SiteTransport, Terms
from tests.sites.hospitals import LOSS, PREPROCESS, hospitals, terms

ALGORITHMS = [fs.Newton(LOSS), fs.FedNewtonCG(LOSS), fs.SHED(LOSS)]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: type(one).__name__)
def test_sites_give_the_bits_and_bytes_of_a_simulation(algorithm: object, tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    here = fs.run(algorithm, found.clients, preprocess=PREPROCESS)
    there = fs.run(algorithm, SiteTransport(LocalCarrier(found.paths), terms()), preprocess=PREPROCESS)
    assert here.converged
    assert there.converged
    assert np.array_equal(here.model.w, there.model.w)
    assert here.ledger.to_rows() == there.ledger.to_rows()


def test_held_out_rows_and_standard_errors(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    judged = fs.data.hold_out(found.clients, 0.25, 3)
    evaluation = fs.Evaluation(LOSS, least=5)
    here = fs.run(fs.Newton(LOSS), judged, preprocess=PREPROCESS, evaluation=evaluation)
    asked = Terms(terms().run, held_out=HeldOut(0.25, 3))
    with fs.Session(
        SiteTransport(LocalCarrier(found.paths), asked), also={"summary": fs.StandardErrors(LOSS)}
    ) as session:
        there = fs.run(fs.Newton(LOSS), session, preprocess=PREPROCESS, evaluation=evaluation)
        summary = there.summary()
    assert np.array_equal(here.model.w, there.model.w)
    assert here.evaluation == there.evaluation
    assert [one.error for one in summary.coefficients()] == [one.error for one in here.summary().coefficients()]
