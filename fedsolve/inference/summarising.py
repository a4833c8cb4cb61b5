"""`fs.summary`: standard errors, intervals and tests of a run's model, asked of the clients it was fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import numpy as np

from fedsolve.algorithms.base import includes_server
from fedsolve.data.fitted_transform import Transform
from fedsolve.errors import ConfigError, DataError
from fedsolve.federation.federation import Federation
from fedsolve.federation.ledger import Ledger
from fedsolve.federation.session import Session
from fedsolve.inference.design_columns import DesignColumn, design_columns, raw_map, raw_moments, standardised_map
from fedsolve.inference.estimates import Estimates, estimates
from fedsolve.inference.existence import Columns, inspect_columns, missing_outcome, named, vanished
from fedsolve.inference.judging import as_weights
from fedsolve.inference.legend import legend
from fedsolve.inference.reopened import FinishedRun, reopened
from fedsolve.inference.score_sums import FEW, TOTALS
from fedsolve.inference.standard_errors import Answers, StandardErrors
from fedsolve.inference.summarised import INTERCEPT, Errors, Summary
from fedsolve.inference.summary_notes import WORTH_SAYING, knots, listed, lost_sites, notes
from fedsolve.losses import LinearLoss, Logistic, Poisson, Softmax, Squared
from fedsolve.models.linear import LinearModel
from fedsolve.numerics.linalg import to_numpy
from fedsolve.numerics.scalars import python_numbers
from fedsolve.typing import Array

FAMILIES: dict[type[LinearLoss], str] = {
    Squared: "Gaussian",
    Logistic: "binomial",
    Poisson: "Poisson",
    Softmax: "multinomial",
}
REJECTED = 0.1  # standard errors from the maximum: beyond it intervals would be around the wrong point
SURE = 1e-10  # of the squared mean: a variance below it is lost in the rounding of sums of squares


def summary(
    run: FinishedRun,
    protocol: StandardErrors | None = None,
    *,
    errors: Errors = "model",
    level: float = 0.95,
    use_t: bool = False,
) -> Summary:
    """Coefficients with standard errors, confidence intervals and p values, and AIC, BIC, deviance and R².

        run = fs.run(fs.Newton(fs.Logistic(intercept="free")), clients, preprocess=fs.data.Preprocess())
        print(run.summary())

    Estimates are in the units of the raw columns, whatever the preprocessing, and standardised. One exchange asks all
    clients for sums over their rows; see `StandardErrors` for what leaves a client.

    Args:
        run: A finished run of a linear model: `Squared`, `Logistic`, `Poisson` or `Softmax`, without a feature map. If
            it was given a `Session` that is still open, the same clients are asked through it, and the session must
            have been told so: `fs.Session(clients, also={"summary": fs.StandardErrors(loss)})`. Otherwise the run's
            transport is opened once more, and the clients the model was fitted to must be there.
        protocol: How to ask. By default that of the session, or `StandardErrors(run.algorithm.loss)`.
        errors: Which standard errors intervals and tests use: "model", from the Hessian; "robust", HC0; "clustered" by
            site, where there are enough sites. All that there are can be read from the result.
        level: Of the confidence intervals.
        use_t: Use the t distribution with n − p degrees of freedom instead of the normal one.

    Raises:
        ConfigError: If there are no standard errors for such a model, which is said in one sentence.
        DataError: If the run did not end at a maximum of the likelihood, or there is none: then the columns are named
            for which no finite estimate exists.
    """
    protocol = python_numbers(protocol)
    session = _session(run)
    model, loss = _linear(run)
    if not np.isfinite(model.w).all() or (run.status == "diverged" and isinstance(loss, Squared)):
        raise DataError(f"there is no summary, because the run {_ended(run)}")
    asking: AbstractContextManager[Federation]
    if session.closed:
        protocol = protocol or StandardErrors(loss)
        asking = reopened(run, session, "summary", protocol)
    else:
        protocol = _declared(session, protocol)
        asking = nullcontext(session.fed)
    if type(protocol.loss) is not type(loss) or protocol.loss != loss:
        raise ConfigError(f"the run minimised {loss!r}, and these standard errors are for {protocol.loss!r}")
    with asking as fed:
        before = len(fed.ledger.records)
        w = as_weights(model, fed, loss)
        answers = protocol.ask(fed, w)
        ledger = Ledger()
        ledger.records += fed.ledger.records[before:]
        names = fed.feature_names
        lost = tuple(session.fed.position().lost)
        sites = tuple(name for name in fed.clients if name not in lost)
    found = _summarised(run, protocol, answers, w, names, sites, ledger, (errors, level, use_t))
    return replace(found, notes=(*found.notes, *lost_sites(lost, session.fed.weights)))


# ── before the clients are asked ──


def _session(run: FinishedRun) -> Session:
    session = getattr(run, "session", None)
    if isinstance(session, Session):
        return session
    if hasattr(run, "session"):
        raise ConfigError(
            "this run no longer has its clients, because it was copied or pickled: ask the run that fs.run returned"
        )
    raise ConfigError(f"summary takes the result of fs.run, got {type(run).__name__}")


def _linear(run: FinishedRun) -> tuple[LinearModel, LinearLoss]:
    """The run's model and loss. Raises ConfigError, in one sentence, where a summary makes no sense."""
    model, loss = run.model, getattr(run.algorithm, "loss", None)
    if not isinstance(model, LinearModel):
        raise ConfigError(
            f"there is no summary of this model, {type(model).__name__}: standard errors belong to coefficients of a "
            "linear model, and the parameters of a network, an ensemble or a kernel expansion mean nothing one by one"
        )
    if not isinstance(loss, LinearLoss) or type(loss) not in FAMILIES:
        raise ConfigError(
            f"there is no summary of {type(run.algorithm).__name__} with {type(loss).__name__}: standard errors need "
            "the likelihood of Squared, Logistic, Poisson or Softmax"
        )
    if loss.features is not None:
        raise ConfigError(
            f"there is no summary of a model of {type(loss.features).__name__} features: its weights belong to "
            "features and not to columns, so that their standard errors would answer no question about a column"
        )
    if includes_server(run.algorithm):
        raise ConfigError(
            "there is no summary of a fit to which the server's own rows belong: its clients alone have another "
            "maximum; give the server's rows to a client of its own"
        )
    if loss.l1:
        raise ConfigError(
            "there is no summary of a fit with an l1 penalty: it chooses its columns by looking at the outcome, and "
            "standard errors that ignore the choice are too small; fit the chosen columns without l1, on other rows"
        )
    return model, loss


def _declared(session: Session, protocol: StandardErrors | None) -> StandardErrors:
    """The protocol that the clients of an open session answer."""
    declared = [one for one in session.fed.protocols.values() if isinstance(one, StandardErrors)]
    if protocol is None and declared:
        return declared[0]
    if protocol is None or protocol not in declared:
        has = "other settings of it" if declared else "none"
        raise ConfigError(
            "the clients of an open session answer only protocols that it was told of, and there is "
            f'{has}: fs.Session(clients, also={{"summary": fs.StandardErrors(loss)}})'
        )
    return protocol


def _ended(run: FinishedRun) -> str:
    return f"ended as {run.status!r}: {run.message}"


# ── after ──


def _summarised(
    run: FinishedRun,
    protocol: StandardErrors,
    answers: Answers,
    w: Array,
    names: Sequence[str] | None,
    sites: tuple[str, ...],
    ledger: Ledger,
    how: tuple[Errors, float, bool],
) -> Summary:
    loss, model = protocol.loss, run.model
    assert isinstance(model, LinearModel)
    p = w.shape[0] - (loss.intercept is not None)
    transform = model.transform if isinstance(model.transform, Transform) else None
    columns = design_columns(transform, names or tuple(f"x{j}" for j in range(p)))
    told = inspect_columns(loss, answers.sums, columns)
    found = estimates(protocol, answers, w)
    place = {j: name for j, name in enumerate([*(one.name for one in columns), INTERCEPT])}
    aliased = {
        place[j % w.shape[0]]: tuple(dict.fromkeys(place[i % w.shape[0]] for i in parts))
        for j, parts in found.aliases.combinations.items()
    }
    _check_maximum(run, loss, answers, found, columns, told)
    _check_resolved(found, aliased)
    raw = raw_map(columns, loss.intercept is not None)
    standard = _standardised(columns, answers, told, loss)
    implied = raw.shape[0] > w.shape[0]
    outcomes, reference = _outcomes(loss, model)
    in_raw = _mapped(found, raw, w.shape[0], aliased, columns)
    in_standard = _mapped(found, standard, w.shape[0], aliased, columns)
    if implied:  # the constant that centring leaves has no counterpart among standardised weights
        in_standard = _with_blank(in_standard)
    has_first = loss.intercept is not None or implied
    return Summary(
        FAMILIES[type(loss)],
        (*((INTERCEPT,) if has_first else ()), *(one.name for one in columns)),
        *(outcomes, reference, *in_raw, *in_standard, *how, found.likelihood, answers.sums.samples),
        *(_missing(transform, answers), sites, protocol.weights, loss.l2, aliased, found.distance),
        (*notes(run, protocol, answers, found, columns, told, aliased, implied), *knots(transform)),
        ledger,
        raw_moments(columns, _moments(answers)),
        tuple(legend(loss, model.classes, transform, float(answers.sums.totals[0]))),
    )


def _outcomes(loss: LinearLoss, model: LinearModel) -> tuple[tuple[str, ...], str]:
    """The labels that are compared with the first, and the first; of two classes or none, no labels."""
    if not isinstance(loss, Softmax):
        return ("",), ""
    labels = _labels(loss, model)
    return tuple(labels[1:]), labels[0]


def _labels(loss: LinearLoss, model: object) -> list[str]:
    """What the classes are called."""
    return [str(one) for one in (getattr(model, "classes", None) or range(getattr(loss, "classes", 0)))]


def _missing(transform: Transform | None, answers: Answers) -> int | None:
    """How many cells were imputed, by weight; None for fewer than 5, but not for none."""
    if transform is None or transform.missing is None:
        return 0
    count = float(to_numpy(transform.missing).sum()) * float(answers.sums.totals[0])
    return None if 0 < round(count) < FEW else round(count)


def _check_maximum(
    run: FinishedRun,
    loss: LinearLoss,
    answers: Answers,
    found: Estimates,
    columns: Sequence[DesignColumn],
    told: Columns,
) -> None:
    """Raise DataError unless the run has ended at a maximum of the likelihood."""
    names = [one.name for one in columns]
    if not loss.l2 and (why := missing_outcome(loss, answers.sums, _labels(loss, run.model))) is not None:
        raise DataError(f"no finite maximum-likelihood estimate exists: {why}")
    if not loss.l2 and not isinstance(loss, Squared):
        places, how = list(told.one_sided), ""  # an aliased one too: the direction exists, whatever it is called
        if not places and run.status == "diverged":
            places = list(vanished(found.bread, answers.sums, loss.intercept is not None))
            how = "some combination of "
        if places:
            raise DataError(
                f"no finite maximum-likelihood estimate exists: the likelihood rises for ever along {how}these columns "
                f"({named(places, names, told)}). Leave them out, merge the category with another, or add a penalty, "
                "l2 > 0"
            )
    if run.status == "diverged":
        raise DataError(f"there is no summary, because the run {_ended(run)}")
    if found.distance > REJECTED:
        raise DataError(
            f"the run has not reached the maximum of the {'penalised ' if loss.l2 else ''}likelihood: some coefficient "
            f"may be {found.distance:.2g} standard errors away from it, and intervals would be around the wrong point. "
            f"It {_ended(run)}. Give it more rounds or a smaller tolerance, or use an algorithm that converges to the "
            "pooled fit, such as Newton"
        )


def _check_resolved(found: Estimates, aliased: dict[str, tuple[str, ...]]) -> None:
    """Raise DataError if the fit uses what columns have beside those that they are combinations of, to rounding."""
    if found.unresolved > WORTH_SAYING:
        each = [f"{name} (of {listed(parts)})" for name, parts in aliased.items() if parts]
        raise DataError(
            f"these columns are nearly, but not exactly, combinations of others: {'; '.join(each)}. The fit uses the "
            "difference, which is too small for standard errors from sums. Leave these columns out, or replace each "
            "by its difference from the others in units in which it varies by about 1"
        )


# ── units ──


def _moments(answers: Answers) -> tuple[Array, Array]:
    """Mean and mean square of the columns of the design."""
    mean, square = answers.sums.moments / answers.sums.totals[TOTALS.index("weight")]
    return mean, square


def _standardised(columns: Sequence[DesignColumn], answers: Answers, told: Columns, loss: LinearLoss) -> Array:
    mean, square = _moments(answers)
    variance = square - mean * mean
    deviation = np.sqrt(np.where(variance > SURE * mean * mean, variance, np.nan))
    deviation = np.where((square == 0) | ((variance <= 0) & (mean == 0)), 0.0, deviation)
    return standardised_map(columns, mean, deviation, told.binary, loss.intercept is not None)


def _mapped(
    found: Estimates, one: Array, p: int, aliased: dict[str, tuple[str, ...]], columns: Sequence[DesignColumn]
) -> tuple[Array, dict[str, Array]]:
    """Estimates and covariances through a linear map of each outcome's parameters, the intercept first; NaN for what
    has no estimate."""
    k = len(found.theta) // p
    rows = one.shape[0]
    has_first = rows > len(columns)
    order = [rows - 1, *range(rows - 1)] if has_first else list(range(rows))
    one = one[order]
    blank = [place + has_first for place, column in enumerate(columns) if column.name in aliased]
    with np.errstate(invalid="ignore"):
        theta = found.theta.reshape(k, p) @ one.T
        whole = np.kron(np.eye(k), one)
        covariances = {kind: whole @ each @ whole.T for kind, each in found.covariances.items()}
    theta[:, blank] = np.nan
    return theta, covariances


def _with_blank(found: tuple[Array, dict[str, Array]]) -> tuple[Array, dict[str, Array]]:
    """The same with a first parameter that has no value."""
    theta, covariances = found
    k, p = theta.shape
    places = np.concatenate([a * (p + 1) + 1 + np.arange(p) for a in range(k)])
    wider = {}
    for kind, each in covariances.items():
        wider[kind] = np.full((k * (p + 1), k * (p + 1)), np.nan)
        wider[kind][np.ix_(places, places)] = each
    return np.concatenate([np.full((k, 1), np.nan), theta], axis=1), wider
