"""FFGB: every client takes K boosting steps of its own, and the server averages the functions they end with.

    f^{t+1} = (1/|S|) Σ_{i ∈ S} g_i^{K+1},     g_i^{k+1} = g_i^k − η (h_i^k + μ g_i^k),     g_i^1 = f^t

h_i^k is a weak learner's fit to the functional gradient of client i and to what earlier fits have left over.

Federated Functional Gradient Boosting
    Zebang Shen, Hamed Hassani, Satyen Kale, and Amin Karbasi. AISTATS 2022. https://arxiv.org/abs/2103.06972

For models that are no weights, such as trees. f is an ensemble that grows by up to K functions per client and round;
clients keep its predictions and are told only what is new. With a fixed K it ends near the minimum (Theorem 4.3); with
residual="carried" at it, where all clients have the same inputs. The server sees each client's functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from fedsolve.errors import ConfigError
from fedsolve.features.base import one_of
from fedsolve.federation.calls import Gather, Mean
from fedsolve.federation.client import Client, client_step
from fedsolve.federation.federation import Federation
from fedsolve.learners.base import WeakLearner
from fedsolve.learners.boosted import Boosted
from fedsolve.learners.hearing import News, fitting, hear, inputs_of, remembered
from fedsolve.learners.parts import averaged, check_functions
from fedsolve.local.functional_rates import Rule, check_rate, coefficients, rates
from fedsolve.losses import Pointwise, functional
from fedsolve.models.ensemble import Ensemble
from fedsolve.numerics.scalars import whole
from fedsolve.typing import Array
from fedsolve.wire.arguments import require_count

T = TypeVar("T")


@dataclass(frozen=True)
class FFGB:
    """Local boosting steps, then the average of the functions.

    loss       what a prediction costs: Squared(), Logistic(), Softmax(classes=…), Poisson(), or another convex one
    learner    the weak learner, such as RidgeLearner(…)
    steps      K, the boosting steps of a client in a round (default 1). More need fewer rounds and send more functions
    step_size  η: a number (default 0.1), or the rule of a theorem, which needs tikhonov > 0: "theorem 4.1" and
               "theorem 4.4" are 4/(μ(tK + k + 1)), "theorem 4.3" is 2/(μ(tK + k + 1))
    tikhonov   μ of the penalty (μ/2) ‖f‖² (default 0: none)
    residual   what fits leave over is added to the next target: "round", the default, begins anew in each round as in
               the paper; "carried" goes on at each client where its last round ended; None (or "none") drops it
    initial    f⁰: "zero", the default, or "constant", the constant with the least objective, from one mean
    weigh      how clients count: "uniform", the default, as in the paper (equation 9), or by "samples"
    """

    loss: Pointwise
    learner: WeakLearner
    steps: int = 1
    step_size: float | Rule = 0.1
    tikhonov: float = 0.0
    residual: Literal["round", "carried"] | None = "round"
    initial: Literal["zero", "constant"] = "zero"
    weigh: Literal["uniform", "samples"] = "uniform"

    def __post_init__(self) -> None:
        functional.check(self.loss, "FFGB")
        check_rate(self.step_size, self.tikhonov)
        if not isinstance(self.learner, WeakLearner):
            raise ConfigError(f"learner is a weak learner such as RidgeLearner(), got {self.learner!r}")
        whole("steps", self.steps, 1)
        one_of("residual", "none" if self.residual is None else self.residual, ("round", "carried", "none"))
        object.__setattr__(self, "residual", None if str(self.residual) == "none" else self.residual)
        one_of("initial", self.initial, ("zero", "constant"))
        one_of("weigh", self.weigh, ("uniform", "samples"))

    # ── clients ──

    @client_step(sends="{self.learner.sends}")
    def local_steps(self, client: Client, news: News, t: int) -> tuple[tuple[Array, ...], ...]:
        require_count("t", t)
        g = hear(client, self.learner, news, functional.outputs_at(self.loss, client)).own  # 2: g_i^{1,t} = f^t
        delta = client.memory.get("residual", 0.0 * g) if self.residual == "carried" else 0.0 * g  # 2
        functions = []
        for eta, keeps in rates(self.step_size, self.tikhonov, t, self.steps):  # 3
            target = delta + functional.gradient(self.loss, client, g)
            h = self.learner.fit(fitting(client, self.learner, target))  # 4
            values = h(inputs_of(client, self.learner))
            g = keeps * g - eta * values  # 5
            if self.residual is not None:
                delta = target - values  # 6
            functions.append(h.arrays())
        if self.residual == "carried":
            client.memory["residual"] = delta
        return tuple(functions)  # 7: g_i^{K+1,t} is what both sides compute from them

    @client_step(sends="a confirmation that it knows the model")
    def learn_of(self, client: Client, news: News) -> int:
        return hear(client, self.learner, news, functional.outputs_at(self.loss, client)).parts

    @client_step(sends="its loss")
    def value(self, client: Client, parts: int) -> float:
        return functional.value(self.loss, client, remembered(client, parts).own, self.tikhonov)  # (9)

    @client_step(sends="the mean of its targets")
    def targets(self, client: Client) -> Array:
        return functional.mean_target(self.loss, client)

    # ── server ──

    def start(self, fed: Federation) -> Boosted:
        if fed.warm_start is not None:
            raise ConfigError("FFGB starts from a constant function, not from weights: leave warm_start out")
        constant = np.zeros(functional.outputs_for(self.loss, fed.outputs))
        if self.initial == "constant":
            constant = functional.best_constant(
                self.loss, fed.exchange(self._mean(Mean(self.targets)))[0], self.tikhonov
            )
        return Boosted(constant, self.learner.prepare(fed), self.learner.width(fed))

    def round(self, fed: Federation, state: Boosted) -> Boosted:
        t, learner = len(state.parts), self.learner
        # Gathered: a function is no number that could be added to others. A client whose arrays are no functions is
        # missing, with the reason.
        call = Gather(self.local_steps, news=state.news(fed.clients), t=t).checked(
            lambda found: check_functions(learner, found, self.steps, state.inputs, state.constant.shape)
        )
        functions = fed.exchange(call)[0]  # 3: the run has sampled S^t
        shares = dict.fromkeys(functions, 1.0) if self.weigh == "uniform" else fed.weights
        part = averaged(*coefficients(rates(self.step_size, self.tikhonov, t, self.steps)), functions, shares)  # 4
        return state.with_part(part, functions)

    def telling(self, fed: Federation, state: Boosted) -> Gather[int] | None:
        """The call by which clients hear of the parts that they do not know yet; None if they know all."""
        return None if state.is_known(fed.clients) else Gather(self.learn_of, news=state.news(fed.clients))

    def measuring(self, fed: Federation, state: Boosted) -> Mean[float]:
        return self._mean(Mean(self.value, parts=len(state.parts)))

    @property
    def may_grow(self) -> bool:
        """By a rule the first steps are as long as 1/μ or 2/μ, and the value may rise a long way before it falls."""
        return isinstance(self.step_size, str)

    def model(self, state: Boosted) -> Ensemble:
        return Ensemble(self.learner, state.constant, state.parts, state.inputs, self.loss.link)

    def _mean(self, call: Mean[T]) -> Mean[T]:
        return call.uniform() if self.weigh == "uniform" else call
