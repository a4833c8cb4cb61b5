"""Bad input gets a clear error: which client, what came, what was expected, what to do (contract 10)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

import fedsolve as fs
from fedsolve.errors import ClientError, ConfigError, DataError, ProtocolMismatch, WrongType
from fedsolve.federation.federation import Federation
from fedsolve.federation.transports import InProcess, Processes
from fedsolve.typing import Array

X, Y = np.arange(12.0).reshape(6, 2), np.array([0.0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize(
    ("data", "targets", "weights", "message"),
    [
        (np.zeros(6), Y, None, r"'a'.*shape \(6,\).*\(samples, features\)"),
        (np.zeros((0, 2)), np.zeros(0), None, r"'a' is empty"),
        (np.zeros((6, 0)), Y, None, r"'a' has no features"),
        (X, Y[:5], None, r"'a': y has shape \(5,\) for 6 samples"),
        (X + 1j, Y, None, r"'a': X has dtype complex128"),
        (np.full((6, 2), np.inf), Y, None, r"'a': X has infinite"),
        (X, np.array(["yes"] * 6), None, r"'a': y has dtype <U3.*encode"),
        (X, np.full(6, np.nan), None, r"'a': y has 6 missing"),
        (sp.csr_array(np.full((6, 2), np.nan)), Y, None, r"'a': X has NaN"),
        (X, Y, np.ones(5), r"'a': sample_weight has shape \(5,\)"),
        (X, Y, -np.ones(6), r"'a': sample weights must be finite, not negative"),
        (X, Y, np.zeros(6), r"'a': sample weights .* not all zero"),
    ],
)
def test_a_client_refuses_what_it_cannot_hold(data: Array, targets: Array, weights: Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fs.Client("a", data, targets, weights)


def two(second: fs.Client) -> list[fs.Client]:
    return [fs.Client("a", X, Y), second]


@pytest.mark.parametrize("kind", [InProcess, Processes])
@pytest.mark.parametrize(
    ("client", "message"),
    [
        (fs.Client("b", X, 2 * Y - 1), r"'b'.*labels .* got -1 … 1; for −1 and 1 use \(y \+ 1\) / 2"),
        (fs.Client("b", X, np.stack([Y, Y], 1)), r"'b'.*one target, y has shape \(6, 2\)"),
    ],
)
def test_labels_outside_the_domain_are_refused_before_the_run(kind: type, client: fs.Client, message: str) -> None:
    with pytest.raises(ClientError, match=message):
        fs.run(fs.Newton(fs.Logistic()), kind(two(client)))


def test_clients_must_agree_on_shapes() -> None:
    with pytest.raises(DataError, match="'b' has 3 features where 'a' has 2"):
        fs.run(fs.Newton(fs.Squared()), two(fs.Client("b", np.ones((2, 3)), np.ones(2))))
    with pytest.raises(DataError, match=r"'b' has targets of shape \(2,\), 'a' of \(\)"):
        fs.run(fs.Newton(fs.Squared()), two(fs.Client("b", np.ones((2, 2)), np.ones((2, 2)))))


def test_missing_values_ask_for_preprocessing() -> None:
    broken = X.copy()
    broken[0, 0] = np.nan
    with pytest.raises(DataError, match=r"'b' has text columns or missing values.*preprocess="):
        fs.run(fs.Newton(fs.Squared()), two(fs.Client("b", broken, Y)))


def test_federations_without_clients_or_with_twins() -> None:
    with pytest.raises(DataError, match="at least one client"):
        fs.run(fs.Newton(fs.Squared()), [])
    with pytest.raises(DataError, match="two clients are named 'a'"):
        fs.run(fs.Newton(fs.Squared()), two(fs.Client("a", X, Y)))
    with pytest.raises(DataError, match="expected Client objects, got tuple"):
        fs.run(fs.Newton(fs.Squared()), [(X, Y)])


def test_a_link_that_is_none() -> None:
    with pytest.raises(DataError, match=r"'a': link is a Link, such as Link\(bytes_per_round=2000\), got 2000"):
        fs.Client("a", X, Y, link=2000)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fs.Squared(l2=-1), "l2 is a finite penalty of at least 0, got -1"),
        (lambda: fs.Squared(intercept="yes"), "'free', 'penalised' or None, got 'yes'"),
        (lambda: fs.GradientSteps(steps=0), "steps is a whole number of at least 1, got 0"),
        (lambda: fs.GradientSteps(step_size=-1.0), "step_size is a positive number"),
        (lambda: fs.CG(steps=0), "steps is a whole number of at least 1, got 0"),
        (lambda: fs.Richardson(steps=0), "steps is a whole number of at least 1, got 0"),
        (lambda: fs.Richardson(step_size=0.0), "step_size is a positive number, got 0"),
        (lambda: fs.GIANT(fs.Poisson(), fs.Richardson()), "no bound on its smoothness: give Richardson a step_size"),
        (lambda: fs.AGD(fs.Poisson()), "no bound on its smoothness: give AGD a step_size"),
        (lambda: fs.AGD(fs.Squared(l2=0.1), step_size=-1.0), "step_size is positive, got -1"),
        (lambda: fs.AGD(fs.Squared(l2=0.1), momentum="heavy"), "'strong convexity', 'restart' or None, got 'heavy'"),
        (lambda: fs.AGD(fs.Squared(), momentum="strong convexity"), "needs l2 > 0 and no free intercept"),
        (lambda: fs.Armijo(alpha=0.9), "alpha < 1/2"),
        (lambda: fs.Participation(fraction=0.0), "fraction"),
        (lambda: fs.Participation(dropout=1.5), "dropout"),
        (lambda: fs.Participation(latency=1.0), "set a deadline too"),
        (lambda: fs.Link(bytes_per_round=0), "positive number of bytes"),
        (lambda: fs.Stopping(tolerance=-1.0), "tolerance"),
        (lambda: fs.run(fs.Newton(fs.Squared()), [fs.Client("a", X, Y)], seed=-1), "a seed is"),
        (lambda: fs.run(fs.Newton(fs.Squared()), [fs.Client("a", X, Y)], transport="pigeon"), "'pigeon'"),
        (lambda: fs.run(fs.Newton(fs.Squared()), [fs.Client("a", X, Y)], resume=True), "needs checkpoint="),
        (
            lambda: fs.run(fs.Newton(fs.Squared()), [fs.Client("a", X, Y)], rounds=3, stopping=fs.Stopping()),
            "not both",
        ),
        (lambda: fs.run(fs.Newton, [fs.Client("a", X, Y)]), "Newton is a class: give an instance"),
        (lambda: fs.Link(bytes_per_round="2kB"), "bytes_per_round is a whole number such as 2000.*got '2kB'"),
        (lambda: fs.Link(2e3), "bytes_per_round is a whole number.*got 2000.0"),
        (lambda: fs.Link(vectors_per_round=1.5), "vectors_per_round is a whole number.*got 1.5"),
        (
            lambda: fs.cross_validate(fs.Squared(), [fs.Client("a", X, Y)]),
            r"give a list, or make a grid with loss_grid",
        ),
        (lambda: fs.run(fs.SHED("logistic"), [fs.Client("a", X, Y)]), "SHED takes a loss .*got 'logistic'"),
        (lambda: fs.run(fs.Newton("logistic"), [fs.Client("a", X, Y)]), "Newton takes a loss .*got 'logistic'"),
        (lambda: fs.run(fs.Newton(None), [fs.Client("a", X, Y)]), "Newton takes a loss .*got None"),
        (lambda: fs.run(fs.Newton(fs.Squared), [fs.Client("a", X, Y)]), r"Squared, is a class: give an instance"),
        (
            lambda: fs.run(fs.Newton(fs.Squared()), [fs.Client("a", X, Y)], preprocess=fs.data.Preprocess),
            r"preprocess is the class Preprocess: call it, Preprocess\(",
        ),
        (
            lambda: fs.run(fs.SHEDLeastSquares(fs.Logistic()), [fs.Client("a", X, Y)]),
            "SHEDLeastSquares needs a quadratic loss such as Squared, got Logistic; use an algorithm",
        ),
    ],
)
def test_hyper_parameters_that_make_no_sense(make: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@dataclass(frozen=True)
class OnlyGradients(fs.Squared):
    provides = frozenset({"gradient"})


@dataclass(frozen=True)
class NeedsMore(fs.FedAvg):
    needs = frozenset({"strong convexity"})


@dataclass(frozen=True)
class NeedsQuadratic(fs.FedAvg):
    needs = frozenset({"quadratic"})


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (fs.Newton(OnlyGradients()), "Newton needs a loss with hessian, which OnlyGradients does not have"),
        (NeedsMore(fs.Logistic(l2=1.0, intercept="free")), "NeedsMore needs strong convexity"),
        (NeedsQuadratic(fs.Logistic()), "NeedsQuadratic needs a quadratic loss such as Squared, got Logistic"),
    ],
)
def test_what_an_algorithm_needs_is_checked_before_the_run(algorithm: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fs.run(algorithm, [fs.Client("a", X, Y)])


@dataclass(frozen=True)
class Lying:
    """A protocol whose steps do not keep their word."""

    loss: fs.Squared

    @fs.client_step
    def text(self, client: fs.Client) -> float:
        return "not a number"  # type: ignore[return-value]

    @fs.client_step
    def broken(self, client: fs.Client, w: Array) -> Array:
        return w[10]

    @fs.client_step
    def unknown(self, client: fs.Client) -> Array:
        return object()

    @fs.client_step
    def ragged(self, client: fs.Client) -> Array:
        return np.zeros(client.n_samples)

    @fs.client_step
    def meddling(self, client: fs.Client, w: Array) -> float:
        w[0] = 1.0
        return 0.0


def federation(kind: type) -> tuple[Federation, Lying]:
    protocol = Lying(fs.Squared())
    transport = kind([fs.Client("a", X, Y), fs.Client("b", X[:3], Y[:3])])
    transport.open({"lying": protocol})
    fed = Federation(transport, {"lying": protocol})
    fed.join()
    return fed, protocol


@pytest.mark.parametrize("kind", [InProcess, Processes])
def test_steps_that_break_their_contract(kind: type) -> None:
    fed, protocol = federation(kind)
    try:
        with pytest.raises(WrongType, match="client 'a' answered text with a str"):
            fed.gather(protocol.text)
        with pytest.raises(ClientError, match=r"client 'a', step lying.broken: IndexError.*test_bad_input.py"):
            fed.mean(protocol.broken, w=np.zeros(2))
        with pytest.raises(ClientError, match=r"client 'a', step lying.unknown.*cannot travel"):
            fed.mean(protocol.unknown)
        with pytest.raises(WrongType, match=r"different shapes cannot be added: \(6,\) and \(3,\)"):
            fed.mean(protocol.ragged)
        with pytest.raises(ClientError, match=r"lying.broken takes \['w'\], got \[\]"):
            fed.mean(protocol.broken)
        with pytest.raises(ClientError, match=r"got w of type str"):
            fed.mean(protocol.broken, w="zero")
        w = np.zeros(2)
        with pytest.raises(ClientError, match="read-only"):
            fed.mean(protocol.meddling, w=w)
        assert (w == 0).all()
        with pytest.raises(ConfigError, match="is not a client step"):
            fed.mean(print)
        with pytest.raises(ConfigError, match="not one of this run's protocols"):
            fed.mean(Lying(fs.Squared(l2=1.0)).text)
    finally:
        fed.transport.close()


def test_two_sides_that_differ_do_not_start() -> None:
    transport = InProcess([fs.Client("a", X, Y)])
    transport.open({"algorithm": fs.Newton(fs.Squared(l2=1.0))})
    with pytest.raises(ClientError, match="other hyper-parameters here"):
        Federation(transport, {"algorithm": fs.Newton(fs.Squared(l2=2.0))}).join()
    with pytest.raises(ClientError, match="was started with"):
        Federation(transport, {"other": fs.Newton(fs.Squared(l2=1.0))}).join()
    assert issubclass(ProtocolMismatch, fs.errors.FedsolveError)
