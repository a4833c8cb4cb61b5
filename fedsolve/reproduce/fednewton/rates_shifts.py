"""FedNewton, learning rates with shifts: small ones, moderate ones that cost rounds, and one that is too large."""

from __future__ import annotations

from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.fednewton.sharp import Sharp
from fedsolve.reproduce.fednewton.slopes import Case, Slopes
from fedsolve.reproduce.fednewton.theorem3 import ROUNDS

SHARE = 0.75  # |D_j| = |D|^share, above |D|^(2/3)
NONE = Sharp(0.5, 0.5)
SMALL, MODERATE, LARGE = (Sharp(0.5, 0.5, tilt=h) for h in (0.05, 0.3, 0.5))
MODELS = Sharp(0.5, 0.5, models=0.3)
FELT, FELT_MODELS = 10.0, 1.5  # times what is found without the shift
FROM = 8192  # |D| from which the large shift is no longer too large

LEFT = (f"federated, #{ROUNDS}", "federated, DKRR")


def cases(totals: tuple[int, ...]) -> list[Case]:
    return [(one, total, SHARE, 1) for one in (NONE, SMALL, MODERATE, LARGE, MODELS) for total in totals]


def name_of(of: Sharp) -> str:
    return f"models with b = {of.models:g}" if of.models else f"inputs with h = {of.tilt:g}"


def _range(found: dict[int, float]) -> str:
    return f"{min(found.values()):.3g} to {max(found.values()):.3g}"


def on_shifts(slopes: Slopes, claims: Claims) -> None:
    for of in (SMALL, MODERATE, MODELS):
        holds, said = slopes.learned(of, SHARE, f"#{ROUNDS}")
        left = slopes.over(of, SHARE, LEFT)
        said += f"; eight rounds leave {_range(left)} of DKRR's federated error"
        claims.add(f"{name_of(of)}: eight rounds learn at the optimal rate", holds, said)
    _on_what_is_felt(slopes, claims)
    _on_too_much(slopes, claims)


def _on_what_is_felt(slopes: Slopes, claims: Claims) -> None:
    """A shift that changes nothing would only repeat the claim on clients alike."""
    rho = slopes.medians(MODERATE, SHARE, "ρ")
    claims.add(f"{name_of(MODERATE)}: ρ < 1 at every |D|", max(rho.values()) < 1, f"ρ is {_range(rho)} in the median")
    none, left = (slopes.over(of, SHARE, LEFT) for of in (NONE, MODERATE))
    times = {total: left[total] / none[total] for total in left}
    said = f"eight rounds leave {_range(times)} times what they leave of DKRR's federated error with h = 0"
    claim = f"{name_of(MODERATE)}: eight rounds leave at least {FELT:g} times what they leave without"
    claims.add(claim, min(times.values()) >= FELT, said)
    none, moved = (slopes.medians(of, SHARE, LEFT[1]) for of in (NONE, MODELS))
    times = {total: moved[total] / none[total] for total in moved}
    said = f"DKRR's federated error is {_range(times)} times that with b = 0"
    claim = f"{name_of(MODELS)}: DKRR's federated error is at least {FELT_MODELS:g} times that without"
    claims.add(claim, min(times.values()) >= FELT_MODELS, said)


def _on_too_much(slopes: Slopes, claims: Claims) -> None:
    rho, left = slopes.medians(LARGE, SHARE, "ρ"), slopes.over(LARGE, SHARE, LEFT)
    least, over = min(rho), slopes.over(LARGE, SHARE, (f"#{ROUNDS}", "KRR"))
    said = "; ".join(
        f"|D| = {total}: ρ is {value:.3g}, eight rounds leave {left[total]:.2g} of DKRR's federated error and "
        f"{over[total]:.3g} times KRR's error"
        for total, value in rho.items()
        if value > 1 or total == least
    )
    claims.add(f"{name_of(LARGE)}: ρ > 1 at |D| = {least}", rho[least] > 1, said)
    large = {total: value for total, value in left.items() if total >= FROM}
    far = {total: value for total, value in rho.items() if total >= FROM}
    said = f"ρ is {_range(far)}; eight rounds leave {_range(large)} of DKRR's federated error"
    holds = max(large.values()) < 1 and max(far.values()) < 1
    claims.add(f"{name_of(LARGE)}: from |D| = {FROM} on ρ < 1 and rounds help", holds, said)
