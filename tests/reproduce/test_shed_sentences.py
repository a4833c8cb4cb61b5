"""SHED's experiments made for single sentences: messages, saved tables, small problems; parts by hand, wrong inputs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedsolve.algorithms import MontDec, Newton, SHEDLeastSquares
from fedsolve.curvature.renewals import Once, Periodic
from fedsolve.errors import ConfigError
from fedsolve.federation.client import Client
from fedsolve.losses import Logistic, Squared
from fedsolve.numerics.structured_arrays import LowRank
from fedsolve.reproduce import find, perform
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.saved_results import read_saved
from fedsolve.reproduce.shed import (
    background,
    baseline_messages,
    condition_number,
    convex_theory,
    heard_messages,
    messages,
    order_of_pairs,
    proofs_convex,
    proofs_least_squares,
    proofs_rates,
    rates,
    saved_tables,
    setting,
    superior,
)
from fedsolve.reproduce.shed.methods import as_printed
from fedsolve.reproduce.shed.problems import w8a
from fedsolve.reproduce.shed.proofs_convex import Worst
from fedsolve.reproduce.shed.small_logistic import Agents
from tests.reproduce.test_experiments import needs_data

# ── saved tables ──


def test_the_medians_of_a_table() -> None:
    assert saved_tables.median("1,141 (1,051–1,252)") == 1141
    assert saved_tables.median("1.34e+03 (1.14e+03–1.6e+03)") == 1340
    assert saved_tables.median("8") == 8
    assert math.isinf(saved_tables.median("not reached"))
    with pytest.raises(ConfigError, match="no saved results of nothing"):
        saved_tables.read("nothing")


class Made(saved_tables.Tables):
    """Counts as they are given, by cell and method."""

    def __init__(self, counts: dict[tuple[saved_tables.Cell, str], float], wide: float = 0) -> None:
        self.cells = tuple(cell for cell, _ in counts)
        self.counts, self.wide = counts, wide

    def of(self, cell: saved_tables.Cell, method: str, counted: str) -> float:
        return self.counts[cell, method]

    def spread(self, cell: saved_tables.Cell, method: str, counted: str) -> tuple[float, float]:
        return self.counts[cell, method] - self.wide, self.counts[cell, method] + self.wide

    def has(self, cell: saved_tables.Cell, method: str) -> bool:
        return (cell, method) in self.counts


def test_where_a_method_loses_is_said() -> None:
    alike, unlike = (saved_tables.Cell("none", kind, "toy", kind == "unlike") for kind in ("iid", "unlike"))
    tables = Made({(alike, "a"): 10, (alike, "b"): 15, (unlike, "a"): 20, (unlike, "b"): math.inf})
    assert superior.at_least(tables, [alike, unlike], "a", ["b"], "rounds", 1.5) == (
        True,
        "at least 1.5 times, 2 comparisons",
    )
    assert superior.at_least(tables, [alike], "a", ["b"], "rounds", 1.6) == (False, "not on toy, iid: 10, b 15")
    assert not superior.at_least(tables, [alike], "a", ["a"], "rounds", 1)[0]  # as many are not fewer
    assert not superior.at_least(tables, [unlike], "b", ["a"], "rounds", 1)[0]
    assert superior.at_least(Made(tables.counts, wide=2), [alike], "a", ["b"], "rounds", 1)[0]
    assert not superior.at_least(Made(tables.counts, wide=3), [alike], "a", ["b"], "rounds", 1)[0]  # quartiles meet
    assert tables.impact(unlike, "a") == 2
    assert math.isinf(tables.impact(unlike, "b"))


def test_what_an_agent_computes_in_a_round() -> None:
    """In gradients: one an iteration, and half of the unknowns for a Hessian."""
    cell = saved_tables.Cell("none", "iid", "toy", False)

    class Counts(saved_tables.Tables):
        def __init__(self, hessians: int) -> None:
            self.counts = {"iterations": 50, "rounds": 100, "Hessians": hessians}

        def of(self, cell: saved_tables.Cell, method: str, counted: str) -> float:
            return self.counts[counted]

    assert superior.computing(Counts(2), cell, "a") == (50 + 2 * superior.UNKNOWNS / 2) / 100
    assert superior.computing(Counts(0), cell, "a") < 1


def test_what_is_saved_of_all_figures_is_what_their_saved_tables_say() -> None:
    saved, result = read_saved("shed-superior"), perform(find("shed-superior")).result
    assert saved is not None
    assert saved.verdicts == dict(result.claims)
    assert saved.lines == list(map(list, result.lines()))


def chosen(counts: dict[str, float]) -> list[bool | None]:
    """The claims on GIANT on the digits, with these counts in both tables."""
    claims = Claims(quick=False)
    superior.on_choice(
        Made({(cell, name): count for cell in superior.CHOICES for name, count in counts.items()}), claims
    )
    return [verdict.holds for _, verdict in claims.found]


def test_the_best_choice_is_better_than_all_that_were_compared() -> None:
    assert [one.data for one in superior.CHOICES] == ["EMNIST 1e-5", "MNIST 1e-5"]
    assert all(one.unlike for one in superior.CHOICES)
    best = {"GIANT": 5, "Fib-SHED": 10, "Fib-SHED+": 8, "FedNL": 7, "Mont-Dec": math.inf}
    assert chosen(best) == [True] * 4
    for name in ("Fib-SHED", "Fib-SHED+", "FedNL", "Mont-Dec", "AGD, Nesterov"):
        assert chosen({**best, name: 4}) == [False] * 4
    assert chosen({"GIANT": 5, "Fib-SHED": 5}) == [False] * 4  # as many are not fewer


# ── messages ──


def costs(up: list[float], exchanges: float = 2, hessians: float = 1) -> messages.Costs:
    """By iteration, after the start."""
    return messages.Costs([0.0, *up], [0.0, *[exchanges] * len(up)], [0.0, *[hessians] * len(up)])


def loads() -> dict[str, dict[int, messages.Costs]]:
    """What agents send as the paper says: d + 1 vectors, d eigenvalues, 31 losses and 4 more."""
    found = {
        f"SHED, d = {d}": {
            n: costs([(d + 1) * n + d + 35.0] * messages.until(f"SHED, d = {d}")) for n in messages.WIDTHS
        }
        for d in messages.INCREMENTS
    }
    for name in ("GN-SHED", "FedNL"):
        found[name] = {n: costs([2.0 * n + 36] * messages.ROUNDS) for n in messages.WIDTHS}
    found["Newton"] = {n: costs([n * (n + 1) / 2 + n + 1] * messages.ROUNDS) for n in messages.WIDTHS}
    return found


def test_loads_are_judged_in_every_iteration() -> None:
    def wrong(found: dict[str, dict[int, messages.Costs]]) -> set[str]:
        claims = Claims(quick=False)
        messages.on_vectors(found, claims)
        return {claim.split(",")[0].split(":")[0] for claim, verdict in claims.found if verdict.holds is not True}

    usual = wrong(loads())
    assert usual == {"FedNL"}  # no Hessian at the start here
    for name, claim in (
        ("GN-SHED", "FedNL sends as many vectors as GN-SHED"),
        ("SHED, d = 3", "d = 3 doubles the load"),
    ):
        once = loads()
        once[name] = {n: costs([*one.up[1:-1], one.up[-1] + n]) for n, one in once[name].items()}  # in the last only
        assert any(found.startswith(claim) for found in wrong(once))
    once = loads()
    once["Newton"] = {n: costs([float(n), *one.up[2:]]) for n, one in once["Newton"].items()}  # in the first only
    assert "Newton's method" in wrong(once)
    once["Newton"] = {n: costs([0.8 * n**1.92] * messages.ROUNDS) for n in messages.WIDTHS}  # another power
    assert "Newton's method" in wrong(once)
    once = loads()
    once["SHED, d = 6"] = {
        n: costs([*one.up[1:5], one.up[5] + 2, *one.up[6:]]) for n, one in once["SHED, d = 6"].items()
    }
    assert wrong(once) == {*usual, "SHED"}  # two numbers more, once


def test_iterations_are_counted_while_pairs_are_left() -> None:
    assert [messages.until(f"SHED, d = {d}") for d in (1, 6, 30)] == [12, 12, 3]
    assert messages.until("GIANT") == 12
    sent = messages.costs(messages.METHODS["SHED, d = 30"], messages.agents(100, 0), 4)
    assert sent.up[1] == sent.up[2] == sent.up[3] == 31 * 100 + 65
    assert sent.up[4] < sent.up[3]  # nine are left


def test_giants_steps_are_those_of_the_harmonic_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = messages.agents(6, 3)
    assert messages.largest_angle(clients) < 1e-12
    monkeypatch.setitem(messages.METHODS, "GIANT", Newton(messages.LOSS))
    assert messages.largest_angle(clients) > 1e-7


def made_increment(first: int, values: list[float], V: np.ndarray) -> heard_messages.Increment:
    return heard_messages.Increment(1, first, LowRank(V, np.array(values)), 0.0, 0.0)


def test_pairs_in_another_order_are_noticed() -> None:
    H, I = np.diag([3.0, 2.0, 1.0]), np.eye(3)
    values = np.array([3.0, 2.0, 1.0])
    assert heard_messages.mismatch(made_increment(0, [3.0, 2.0], I[:, :2]), 0, values, H) == 0
    assert heard_messages.mismatch(made_increment(0, [2.0, 3.0], I[:, [1, 0]]), 0, values, H) == pytest.approx(1 / 3)
    assert heard_messages.mismatch(made_increment(0, [3.0], I[:, :1]), 1, values, H) == pytest.approx(1 / 3)  # again
    assert heard_messages.mismatch(made_increment(0, [3.0], I[:, 1:2]), 0, values, H) == pytest.approx(1 / 3)
    assert heard_messages.mismatch(made_increment(0, [3.0], 2 * I[:, :1]), 0, values, H) == pytest.approx(1 / 3)
    assert math.isinf(heard_messages.mismatch(made_increment(0, [1.0, 1.0], I[:, :2]), 2, values, H))


NAMES = (order_of_pairs.ORDER_LS, order_of_pairs.SHIFT_LS, order_of_pairs.STEP_LS)


def test_messages_and_steps_are_those_of_algorithm_1() -> None:
    clients, loss = heard_messages.agents(0), Squared(l2=heard_messages.MU)
    path = heard_messages.heard(SHEDLeastSquares(loss), clients, 20)
    right, late, moved = Worst(), Worst(), Worst()
    order_of_pairs.followed(loss, clients, path, Once(), NAMES, right)
    assert max(right.found.values()) < 1e-9
    order_of_pairs.followed(loss, clients, path, Periodic(5), NAMES, late)  # not what was run
    assert late.found[order_of_pairs.ORDER_LS] > 1e-3
    path[3] = replace(path[3], after=path[3].after + 1e-6)
    order_of_pairs.followed(loss, clients, path, Once(), NAMES, moved)
    assert moved.found[order_of_pairs.STEP_LS] > 1e-9
    short = Worst()
    order_of_pairs.followed(loss, clients, path[:15], Once(), NAMES, short)
    assert short.found[order_of_pairs.COMPLETE] == 0
    few = [
        replace(
            one,
            told={
                name: replace(t, increment=made_increment(99, [], np.zeros((12, 0)))) for name, t in one.told.items()
            },
        )
        if k == 7
        else one
        for k, one in enumerate(path)
    ]
    gap = Worst()
    order_of_pairs.followed(loss, clients, few, Once(), NAMES, gap)
    assert gap.found[order_of_pairs.COMPLETE] == 1


def test_sheds_messages_are_not_mont_decs() -> None:
    clients, loss = heard_messages.agents(1), Logistic(l2=heard_messages.MU)
    ours, theirs = (
        heard_messages.heard(algorithm, clients, 3)
        for algorithm in (as_printed(loss, 2, Periodic(9)), MontDec(loss, increment=2))
    )
    for path, near in ((ours, False), (theirs, True)):
        one, client = path[2], clients[0]
        values, _ = heard_messages.spectrum(loss, client, one.w)
        off = heard_messages.mismatch(one.told[client.name].increment, 0, values, loss.hessian(client, one.w).full())
        assert (off < 1e-9) is near


@pytest.mark.parametrize("name", ["shed-order", "shed-current", "shed-background"])
def test_quick_forms_contradict_nothing_that_is_saved(name: str) -> None:
    saved = read_saved(name)
    assert saved is not None
    found = dict(perform(find(name), quick=True).result.claims)
    assert set(found) == set(saved.verdicts)
    assert all(saved.verdicts[claim].holds for claim, verdict in found.items() if verdict.holds is False)
    assert sum(verdict.holds is True for verdict in found.values()) >= len(found) - 2
    assert baseline_messages.measured(0)[baseline_messages.OUTDATED] < 1e-6


# ── background ──


def test_hessians_that_move_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def distances() -> dict[str, float]:
        worst = Worst()
        background.hessians(0, worst, points=3)
        return worst.found

    found = distances()
    assert found[background.FIXED] <= 1e-12
    assert found[background.MOVES] <= 100
    monkeypatch.setattr(background, "Squared", background.Logistic)
    assert distances()[background.FIXED] > 0.01


def test_fedavg_by_hand() -> None:
    """Two local steps of 0.03: the error is multiplied by (0.97² + 2²)/2, or by 0.515² with alike agents."""
    assert background.fed_avg(alike=False) == pytest.approx(((0.97**2 + 4) / 2) ** background.ROUNDS)
    assert background.fed_avg(alike=True) == pytest.approx(0.515 ** (2 * background.ROUNDS), abs=1e-12)


def test_decompositions_are_counted() -> None:
    counting = background.Counting(1)
    assert background.Counting(1).orders is not counting.orders
    assert background.decomposed(0) == 0
    assert background.split(0) < 1e-9


def test_local_solves_become_exact() -> None:
    H, g = np.diag([4.0, 2.0, 1.0]), np.ones(3)
    exact = np.linalg.solve(H, g)
    assert background.local_direction(H, g, 3, richardson=False) == pytest.approx(exact)
    assert background.local_direction(H, g, 1, richardson=True) == pytest.approx(g / 4)
    assert background.local_direction(H, g, 500, richardson=True) == pytest.approx(exact)


def test_giant_with_one_agent_is_newtons_method() -> None:
    of = Agents(0, 4, 1, 50, 0.1)
    assert background.giant(of, lambda H, g: np.asarray(np.linalg.solve(H, g))) <= 6
    assert background.giant(of, lambda H, g: background.local_direction(H, g, 1, True)) > 20


# ── condition numbers ──


def test_the_heavy_ball_by_hand() -> None:
    assert condition_number.heavy_ball_rounds(np.array([2.0, 2.0]), np.ones(2)) == 1  # η = 1/λ, β = 0
    few, many = (condition_number.heavy_ball_rounds(np.array([1.0, k]), np.ones(2)) for k in (10.0, 1000.0))
    assert 5 * few < many < 15 * few  # like the root of the condition number


@needs_data
@pytest.mark.parametrize("name", ["shed-condition", "shed-w8a-iid"])
def test_quick_forms_run(name: str) -> None:
    assert len(perform(find(name), quick=True).result.claims) in (1, 3)


@needs_data
def test_w8a_dealt_out_at_random_has_the_same_rows() -> None:
    unlike, alike = (w8a(seed=0, iid=iid).clients for iid in (False, True))
    assert [one.n_samples for one in unlike] == [one.n_samples for one in alike]
    assert sum(one.y.sum() for one in unlike) == sum(one.y.sum() for one in alike)
    assert min(one.y.sum() for one in unlike) == 0 < min(one.y.sum() for one in alike)


# ── rates and proofs ──


def test_how_near_a_bound_is_to_the_rate() -> None:
    """An error that falls by 0.9 and a bound of √0.9: twice the logarithm. f − f* falls by 0.81."""
    errors = [0.9**t for t in range(41)]
    run = rates._Rates(errors, [e**2 for e in errors], [], 0.9**0.5)
    assert run.exactness(5, 0) == pytest.approx(2)
    assert run.periods(5, run.gaps)[-1] == pytest.approx(0.81)
    assert len(run.periods(5)) == 7


def test_the_contraction_of_43_by_hand() -> None:
    known = convex_theory.Constants(2.0, 1.0, 0.1)
    taken = convex_theory.Taken(0.3, 0.1, 0.4, 0.2, 1.0, 4.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0)
    assert taken.contraction(known) == pytest.approx(1 - 1 / 4 + 2 / 4 * (0.2 + 0.15))
    assert taken.bound(known) == pytest.approx(taken.contraction(known) * taken.before)  # with η = 1


def test_the_set_of_whole_hessians_by_hand() -> None:
    """n = 8, renewals at 1, 7, 14, …: all 7 pairs at 13, 20, …, and after one renewal from the 7th iteration on."""
    found = Worst()
    proofs_rates.on_the_set(Agents(0, 8, 4, 30, 0.01), found)
    often, once = len(range(13, 401, 7)), 394
    assert found.found[proofs_rates.MORE] == pytest.approx(once / often)
    counts = np.cumsum([t >= 13 and (t - 13) % 7 == 0 for t in range(1, 401)])
    t = np.arange(16, 401)
    assert found.found[proofs_rates.INDICES] == pytest.approx(np.max(t / 24 / counts[15:]))


def test_longer_periods_bound_the_rate_by_less() -> None:
    of = Agents(0, 8, 4, 30, 0.01)
    assert proofs_rates.exponent(of)[0] == proofs_rates.exponent(of, proofs_rates.PERIOD)[0]
    own, bound = proofs_rates.exponent(of, 7)
    assert own == pytest.approx(0, abs=1e-2)
    assert bound == 0


def test_the_rate_is_below_the_mean_factor_for_every_period(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Agents(0, 8, 4, 30, 0.01)
    means = [proofs_rates.mean_factor(of, period) for period in (1, 4)]
    assert means == pytest.approx([proofs_rates.exponent(of, period)[1] for period in (1, 4)], rel=1e-3)
    worst = Worst()
    proofs_rates.below_the_mean(of, worst)
    assert 0.9 < worst.found[proofs_rates.ABOVE] < 1
    whole = proofs_rates.mean_factor
    monkeypatch.setattr(proofs_rates, "mean_factor", lambda of, period: whole(of, period) * (0.9 if period == 1 else 1))
    wrong = Worst()  # too small with T = 1 alone
    proofs_rates.below_the_mean(of, wrong)
    assert wrong.found[proofs_rates.ABOVE] > 1


def test_a_configuration_that_was_not_considered() -> None:
    assert setting.left_out(setting.DESCRIBED) == ["w8a, iid"]
    assert setting.left_out({"one": {"iid": True, "non iid": True}, "not named": {}}) == []


def test_a_full_step_that_raises_f_by_hand() -> None:
    after = 2 - (2 / math.sqrt(5) + 0.02) / (5**-1.5 + 0.01)
    assert after == pytest.approx(-7.2, abs=0.05)
    fell = (math.sqrt(5) + 0.02) / (math.sqrt(1 + after**2) + after**2 / 200)
    assert proofs_convex.raised() == pytest.approx(fell)


def test_one_more_pair_lowers_the_factor() -> None:
    of = proofs_least_squares.Agents(0)
    assert proofs_least_squares.one_more(of) == 0

    class Rising(proofs_least_squares.Agents):
        def shifts(self, q: int, middle: bool = True) -> np.ndarray:
            return super().shifts(proofs_least_squares.N - 1 - q, middle)

    assert proofs_least_squares.one_more(Rising(0)) > 0.9


def test_other_classes_of_agents_by_hand() -> None:
    X, labels = np.arange(12.0).reshape(6, 2), np.array([1, 1, 0, 2, 2, 3])
    clients = [Client("a", X[:3], np.array([1.0, 1, 0])), Client("b", X[[0, 3, 4, 5]], np.array([1.0, 0, 0, 0]))]
    assert setting._other_classes(X, labels, clients) == [[1], [2, 1]]
