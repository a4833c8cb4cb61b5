"""ρ by Lanczos against dense eigenvalues."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg

import fedsolve as fs
from fedsolve.diagnose import Contraction, contraction
from fedsolve.diagnose.contraction import _apart
from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.calls import Mean
from fedsolve.federation.federation import Federation
from fedsolve.federation.transports import InProcess
from fedsolve.losses import LinearLoss
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.fednewton.contraction import estimates, wrong
from tests.core.federations import TRANSPORTS
from tests.problems import PROBLEMS

SQUARED = fs.Squared(l2=1e-2)


def _exact(loss: LinearLoss, clients: list[fs.Client], w: np.ndarray | None = None) -> float:
    """λ_max(AH) − 1 from dense matrices."""
    at = [loss.zero(client) if w is None else w for client in clients]
    p = np.array([client.weight for client in clients])
    hessians = [loss.hessian(client, v).full() for client, v in zip(clients, at, strict=True)]
    H = np.average(hessians, axis=0, weights=p)
    A = np.average([np.linalg.inv(one) for one in hessians], axis=0, weights=p)
    L = np.linalg.cholesky(H)
    return float(np.linalg.eigvalsh(L.T @ A @ L)[-1]) - 1


@pytest.mark.parametrize("m", [10, 25, 50, 100])
def test_the_grid_of_fig_3(m: int) -> None:
    exact, found = estimates(m, 0, 25)
    ratios = np.array([one.rho for one in found]) / exact
    assert np.mean(ratios >= 0.95) >= 0.9
    assert ratios.max() <= 1 + 1e-10
    assert not any(wrong(exact, one) for one in found)
    assert all(one.upper >= exact and one.proved for one in found)
    assert all(one.steps == 8 for one in found)


def test_the_experiment_quick() -> None:
    assert perform(find("fednewton-rho"), quick=True).result.status == "ok"


@pytest.mark.slow
def test_the_experiment() -> None:
    result = perform(find("fednewton-rho")).result
    assert result.status == "ok"
    assert all(row[2] >= 95 for row in result.rows)
    assert all(row[4] >= 99 for row in result.rows)


QUADRATIC = [name for name in PROBLEMS if name.startswith("squared |")]
OTHERS = ["logistic | unbalanced", "softmax | balanced", "poisson | weighted", "squared, two outputs | balanced"]


@pytest.mark.parametrize("name", [*QUADRATIC, *OTHERS])
def test_all_steps_give_the_exact_value(name: str) -> None:
    posed = PROBLEMS[name]
    clients = posed.clients()
    exact = _exact(posed.loss, clients)
    found = contraction(posed.loss, clients, steps=100)
    assert found.rho == pytest.approx(exact, rel=1e-8, abs=1e-8)
    assert found.upper == pytest.approx(found.rho, abs=1e-6)
    assert found.verdict == ("converges" if exact < 1 else "diverges")
    few = contraction(posed.loss, clients, steps=3)
    assert few.rho <= exact + 1e-10 * (1 + exact)
    assert few.upper >= exact - 1e-8


def test_the_residual_holds_an_eigenvalue() -> None:
    posed = PROBLEMS["squared | unbalanced"]
    clients = posed.clients()
    hessians = [posed.loss.hessian(client, posed.loss.zero(client)).full() for client in clients]
    p = np.array([client.weight for client in clients])
    H = np.average(hessians, axis=0, weights=p)
    A = np.average([np.linalg.inv(one) for one in hessians], axis=0, weights=p)
    values = scipy.linalg.eigvals(A @ H).real
    for seed in range(20):
        found = contraction(posed.loss, clients, steps=2, seed=seed)
        assert np.abs(values - (1 + found.rho)).min() <= found.error + 1e-10


def test_elsewhere_than_at_zero() -> None:
    posed = PROBLEMS["logistic | unbalanced"]
    clients, w = posed.clients(), np.linspace(-1, 1, 6)
    found = contraction(posed.loss, clients, steps=20, w=w)
    assert found.rho == pytest.approx(_exact(posed.loss, clients, w), rel=1e-8)
    assert found.rho != pytest.approx(contraction(posed.loss, clients, steps=20).rho, rel=1e-3)
    with pytest.raises(ConfigError, match="shape"):
        contraction(posed.loss, clients, w=np.zeros(5))


def test_it_tells_what_fednewton_does() -> None:
    for name in QUADRATIC:
        posed = PROBLEMS[name]
        found = contraction(posed.loss, posed.clients(), steps=20)
        run = fs.run(fs.FedNewton(posed.loss), posed.clients(), rounds=400, tolerance=1e-9)
        assert (run.status == "converged") == (found.verdict == "converges"), name


def test_identical_clients() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 5)), rng.standard_normal(30)
    found = contraction(SQUARED, [fs.Client(name, X, y) for name in "abc"])
    assert abs(found.rho) <= 1e-10
    assert abs(found.upper) <= 1e-10
    assert (found.verdict, found.steps, found.plain_rounds, found.cg_rounds) == ("converges", 1, 1, 1)


def test_labels_do_not_matter() -> None:
    posed = PROBLEMS["squared | unbalanced"]
    others = [fs.Client(client.name, client.X, -3 * client.y + 1) for client in posed.clients()]
    assert contraction(posed.loss, posed.clients(), 4).rho == contraction(posed.loss, others, 4).rho


def test_singular_hessians_are_said() -> None:
    X = np.eye(6)
    clients = [fs.Client("a", X[:3], np.ones(3)), fs.Client("b", X[3:], np.ones(3))]
    found = contraction(fs.Squared(), clients, steps=6)
    assert found.least < 0.5
    assert "singular" in found.sentence
    assert not found.proved


@pytest.mark.parametrize("name", ["squared | unbalanced", "softmax | balanced"])
def test_bit_equal_across_transports(name: str) -> None:
    posed = PROBLEMS[name]
    found = [contraction(posed.loss, make(posed.clients()), 4, 3) for make in TRANSPORTS.values()]
    assert found[0] == found[1]  # ledgers too
    assert found[0].rho != contraction(posed.loss, posed.clients(), 4, 4).rho


def test_only_means_and_two_exchanges_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[type] = []
    whole: Callable[..., object] = Federation.exchange

    def watched(self: Federation, *calls: object) -> object:
        kinds.extend(type(call) for call in calls)
        return whole(self, *calls)

    monkeypatch.setattr(Federation, "exchange", watched)
    posed = PROBLEMS["squared | balanced"]
    found = contraction(posed.loss, posed.clients(), steps=4)
    assert set(kinds) == {Mean}
    assert [call for record in found.ledger.records for call in record.calls] == [
        "contraction.local_product",
        *["contraction.local_solve", "contraction.local_product"] * 4,
    ]
    total = found.ledger.total()
    assert total.scalars_up == total.scalars_down == 9 * 6 * 4
    assert total.counts["factorisations"] == 4  # one for each client


def test_in_an_open_federation() -> None:
    posed = PROBLEMS["logistic | unbalanced"]
    protocols = {"algorithm": fs.FedNewton(posed.loss), "ours": Contraction(posed.loss, 4, 1)}
    transport = InProcess(posed.clients())
    transport.open(protocols)
    fed = Federation(transport, protocols)
    fed.join()
    fed.begin_round(1)
    inside = contraction(posed.loss, fed, 4, 1)
    outside = contraction(posed.loss, posed.clients(), 4, 1)
    assert (inside.rho, inside.upper) == (outside.rho, outside.upper)
    assert fed.ledger.total().exchanges == 0  # it was setting up
    with pytest.raises(ConfigError, match="protocols"):
        contraction(posed.loss, fed, 5, 1)
    transport.close()


def test_wrong_input() -> None:
    with pytest.raises(ConfigError, match="steps"):
        Contraction(SQUARED, steps=0)
    with pytest.raises(ConfigError, match="Hessian"):
        contraction(fs.Squared(), [fs.Client("a", np.zeros((3, 2)), np.ones(3))])


def test_the_sentence_says_where_the_hessians_are() -> None:
    posed = PROBLEMS["logistic | label-skewed"]
    found = contraction(posed.loss, posed.clients())
    assert found.sentence.startswith("with the Hessians at w = 0, which is an indication and no more, ")
    assert "for each Newton step" in found.sentence
    there = contraction(posed.loss, posed.clients(), w=np.ones_like(posed.loss.zero(posed.clients()[0])))
    assert there.sentence.startswith("with the Hessians at this w, ")
    quadratic = PROBLEMS["squared | unbalanced"]
    assert "Hessians at" not in contraction(quadratic.loss, quadratic.clients()).sentence


def test_bounds_are_told_apart() -> None:
    assert _apart(0.638, 0.6385, 2) == ("0.638", "0.639")
    assert _apart(0.231, 0.2311, 2) == ("0.23", "0.24")
    assert _apart(0.97, 0.9991, 2) == ("0.9700", "0.9991")
    assert _apart(0.93, 1.2151, 2) == ("0.93", "1.22")
    assert _apart(0.0, 1e-14, 2) == ("0.00", "0.01")


@pytest.mark.parametrize("diagnose", [fs.diagnose.contraction, fs.diagnose.heterogeneity])
def test_columns_that_need_preprocessing(diagnose: Callable[..., object]) -> None:
    X, y = np.array([[1.0, np.nan], [2.0, 3.0], [0.0, 1.0], [4.0, 4.0]]), np.array([0.0, 1.0, 0.0, 1.0])
    clients = [fs.Client("a", X, y), fs.Client("b", X, y)]
    with pytest.raises(DataError, match=r"client 'a' has .* missing values.*does not preprocess.*Session after a run"):
        diagnose(SQUARED, clients)
    question = Contraction(SQUARED) if diagnose is fs.diagnose.contraction else fs.diagnose.Heterogeneity(SQUARED)
    with fs.Session(clients, also={"question": question}) as session:  # what the message says works
        fs.run(fs.Newton(SQUARED), session, preprocess=fs.data.Preprocess())
        diagnose(SQUARED, session)
