"""Estimates and their covariances from the clients' sums, on the scale of the design's columns.

With H the Hessian of the log-likelihood, M the sum of the outer products of scores and φ the scale:

    model-based   φ H⁻¹
    robust        H⁻¹ M H⁻¹, HC0: White (1980), "A Heteroskedasticity-Consistent Covariance Matrix Estimator"
    clustered     c H⁻¹ (Σ_j u_j u_jᵀ) H⁻¹ of the sites' score sums u_j, c = G/(G − 1) · (n − 1)/(n − p): Cameron and
                  Miller (2015), "A Practitioner's Guide to Cluster-Robust Inference"

With a penalty P, H⁻¹ becomes (H + P)⁻¹: the first is then the covariance of the posterior under the Gaussian prior that
the penalty stands for (Wood, 2017, "Generalized Additive Models", section 6.10), the others are about what the
penalised estimate estimates, which is nearer to zero than the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedsolve.inference.aliased import Aliases, find_aliases, inverse, left_out, taken_over
from fedsolve.inference.likelihood import Likelihood, likelihood
from fedsolve.inference.standard_errors import Answers, StandardErrors
from fedsolve.losses import LinearLoss, Softmax, Squared
from fedsolve.typing import Array


@dataclass(frozen=True)
class Estimates:
    """Estimates of contrast after contrast, each with the columns of the design and the intercept last.

    covariances   "model", "robust", and "clustered" where it was asked for; zero where a parameter is aliased
    distance      how far from the maximum the estimates are, in standard errors, at most: the Newton decrement
    unresolved    the same of the fit without the aliased columns: more than rounding where they are only nearly
                  combinations of the others, and the fit makes use of the difference
    """

    theta: Array
    bread: Array
    covariances: dict[str, Array]
    aliases: Aliases
    likelihood: Likelihood
    distance: float
    unresolved: float
    is_exact: bool  # whether what is left of the target is nothing but rounding


def estimates(protocol: StandardErrors, answers: Answers, w: Array) -> Estimates:
    """What the sums say of a model with these weights."""
    loss = protocol.loss
    H, M, score = answers.sums.hessian.full(), answers.sums.outer.full(), answers.sums.score
    theta = contrasts(loss, w)
    p = w.shape[0]
    gained, everything = 0.0, Aliases(np.arange(len(theta)), {}, 1.0)
    if loss.l2:
        bread, squared_distance = _penalised(loss, H, score, w, float(answers.sums.totals[0]))
        aliases = everything
    else:
        aliases = find_aliases(H, _intercepts_first(len(theta), p, loss.intercept is not None))
        kept = aliases.kept
        bread = np.zeros_like(H)
        bread[np.ix_(kept, kept)] = inverse(H[np.ix_(kept, kept)])
        if aliases.combinations:
            gained = left_out(H, theta, aliases)
            moved = np.zeros_like(theta)
            moved[kept] = taken_over(H, theta, aliases)
            theta = moved
        squared_distance = float(score @ bread @ score)
    parameters = float(np.einsum("ij,ij->", bread, H)) if loss.l2 else float(len(aliases.kept))
    found = likelihood(protocol, answers, parameters)
    covariances = {"model": found.scale * bread, "robust": bread @ M @ bread}
    if answers.site_scores is not None:
        U = np.stack(list(answers.site_scores.values()))
        G, n = len(U), found.observations
        factor = G / (G - 1) * (n - 1) / (n - parameters) if G > 1 and n > parameters else np.nan
        covariances["clustered"] = factor * (bread @ (U.T @ U) @ bread)
    floor = _rounding(loss, w, found)
    distance, unresolved = ((one / max(found.scale, floor)) ** 0.5 for one in (squared_distance, gained))
    return Estimates(theta, bread, covariances, aliases, found, distance, unresolved, found.scale <= floor)


def _rounding(loss: LinearLoss, w: Array, found: Likelihood) -> float:
    """The scale that rounding alone leaves of an exact Gaussian fit: of the target's spread, and of its size where that
    is an intercept, whose gradient is rounded n times."""
    eps, n = float(np.finfo(np.float64).eps), found.observations
    size = float(w[-1]) if isinstance(loss, Squared) and loss.intercept is not None else 0.0
    return eps * found.null_deviance / n + 1e4 * n * (eps * size) ** 2 + 1e-300


def contrasts(loss: LinearLoss, w: Array) -> Array:
    """The parameters: w itself, or for classes the differences to the first one, class after class."""
    return (w[:, 1:] - w[:, :1]).T.reshape(-1) if isinstance(loss, Softmax) else w


def _intercepts_first(q: int, p: int, intercept: bool) -> list[int]:
    first = [place for place in range(q) if intercept and place % p == p - 1]
    return first + [place for place in range(q) if place not in set(first)]


def _penalised(loss: LinearLoss, H: Array, score: Array, w: Array, weight: float) -> tuple[Array, float]:
    """(H + P)⁻¹ of the contrasts, and the squared Newton decrement. For classes the penalty is one of all k columns of
    w, so that the inverse is taken there."""
    if not isinstance(loss, Softmax):
        penalty = weight * loss.penalty_diagonal(len(H))
        bread = inverse(H + np.diag(penalty))
        gradient = score + penalty * w
        return bread, float(gradient @ bread @ gradient)
    p, k = w.shape
    T = np.kron(np.concatenate([-np.ones((k - 1, 1)), np.eye(k - 1)], axis=1), np.eye(p))
    penalty = np.diag(np.tile(loss.row_penalties(p), k))
    if loss.intercept == "free":  # see losses/softmax.py: a term that makes the free intercepts unique
        last = np.arange(k) * p + p - 1
        penalty[np.ix_(last, last)] += 1.0 / k
    flat = w.T.reshape(-1)
    whole = inverse(T.T @ H @ T + weight * penalty)
    gradient = T.T @ score + weight * penalty @ flat
    return T @ whole @ T.T, float(gradient @ whole @ gradient)
