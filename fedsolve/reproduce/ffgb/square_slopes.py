"""Appendix F of Shen et al. (2022), slopes: the steepest answers that (14) and (15) allow, at the end of a round."""

from __future__ import annotations

from fedsolve.reproduce.checks import Check
from fedsolve.reproduce.ffgb.judging import Below, Found
from fedsolve.reproduce.ffgb.square_problems import steepened
from fedsolve.reproduce.ffgb.square_runs import Regression, algorithm3

PLACE = "Appendix F, slopes"
RESIDUAL = Below(PLACE, "F: ‖Δ^k‖_lip ≤ (1 − γ)(‖Δ^(k−1)‖_lip + L) ≤ (1 − γ)L/γ, h = γφ and in the last step (2 − γ)φ")
QUERY = Check(PLACE, "F: the query is L/γ-Lipschitz, h = γφ and in the last step (2 − γ)φ, K = 4 and 40")
ANSWER = Check(PLACE, "F: … and so is the answer, with this oracle")
ANSWER_RIGHT = Check(PLACE, "F: … the answer is (2 − γ)L/γ-Lipschitz, with this oracle")
STEP = Below(PLACE, "F: ‖g^(k+1)‖_lip ≤ (1 − η)‖g^k‖_lip + ηL/γ with this oracle, η ≤ ½")
STEP_RIGHT = Below(PLACE, "F: ‖g^(k+1)‖_lip ≤ (1 − η)‖g^k‖_lip + η(2 − γ)L/γ with this oracle, η ≤ ½")
FUNCTION = Check(PLACE, "F: … and g is L/γ-Lipschitz with it, η = ½ and 1/(tK + k + 1)")
FUNCTION_RIGHT = Check(PLACE, "F: … and g is (2 − γ)L/γ-Lipschitz with it")
CHECKS = (RESIDUAL, QUERY, ANSWER, ANSWER_RIGHT, STEP, STEP_RIGHT, FUNCTION, FUNCTION_RIGHT)
GAMMAS, LOCAL, T = (0.3, 0.5, 0.7, 1.0), (4, 40), 3


def steep(one: Regression, found: Found) -> None:
    """All steps of runs with constant and with falling step sizes."""
    for gamma in GAMMAS:
        L, bound = one.L, one.L / gamma
        for K in LOCAL:
            for numerator in (1.0, float("inf")):
                for step in algorithm3(one, steepened(gamma, K), numerator, K, T, most=0.5):
                    slope, ahead = one.lip(step.g), one.lip(step.after)
                    residual = one.lip(step.residual)
                    found.below(RESIDUAL, residual, (1 - gamma) * (one.lip(step.before) + L), L)
                    found.below(RESIDUAL, residual, (1 - gamma) * bound, L)
                    found.note(QUERY, one.lip(one.u - step.before) / bound)
                    found.note(ANSWER, one.lip(step.h) / bound)
                    found.note(ANSWER_RIGHT, one.lip(step.h) / ((2 - gamma) * bound))
                    found.below(STEP, ahead, (1 - step.eta) * slope + step.eta * bound)
                    found.below(STEP_RIGHT, ahead, (1 - step.eta) * slope + step.eta * (2 - gamma) * bound)
                    found.note(FUNCTION, ahead / bound)
                    found.note(FUNCTION_RIGHT, ahead / ((2 - gamma) * bound))
