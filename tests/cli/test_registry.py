from __future__ import annotations

from typing import Any

import pytest

import fedsolve as fs
from fedsolve import algorithms
from fedsolve.errors import ConfigError, InputError, UnknownName
from fedsolve.runfiles import registry

LOSS = {"name": "Logistic", "l2": 0.01, "intercept": "free"}


def test_every_exported_algorithm_has_a_name() -> None:
    assert sorted(registry.names("algorithm")) == sorted(algorithms.__all__)
    for name in algorithms.__all__:
        assert registry.find("algorithm", name) is getattr(algorithms, name)


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("algorithm", "fedavg", fs.FedAvg),
        ("loss", "LOGISTIC", fs.Logistic),
        ("local solver", "gradient-steps", fs.GradientSteps),
        ("line search", "Armijo", fs.Armijo),
        ("partition scheme", "by_group", fs.data.ByGroup),
        ("partition scheme", "quantity skew", fs.data.QuantitySkew),
        ("transport", "in_process", fs.transports.InProcess),
        ("transport", "processes", fs.transports.Processes),
    ],
)
def test_case_and_punctuation_do_not_matter(kind: str, name: str, expected: type[Any]) -> None:
    assert registry.find(kind, name) is expected


def test_abstract_bases_are_not_offered() -> None:
    assert "LinearLoss" not in registry.names("loss")
    assert "Scheme" not in registry.names("partition scheme")
    assert "Transport" not in registry.names("transport")


def test_nested_tables() -> None:
    plain = {"name": "FedAvg", "loss": LOSS, "local": {"name": "GradientSteps", "steps": 7, "step_size": 1}}
    expected = fs.FedAvg(fs.Logistic(l2=0.01, intercept="free"), fs.GradientSteps(steps=7, step_size=1.0))
    assert registry.build("algorithm", plain) == expected


def test_what_is_not_said_of_a_part_stays_as_the_algorithm_has_it() -> None:
    built = registry.build("algorithm", {"name": "Scaffold", "loss": LOSS, "local": {"step_size": 0.5}})
    default = fs.Scaffold(fs.Logistic()).local
    assert built.local == fs.GradientSteps(steps=default.steps, step_size=0.5)


def test_a_part_by_its_name_alone_or_as_an_object() -> None:
    assert registry.build("algorithm", {"name": "DKRR", "loss": "squared"}) == fs.DKRR(fs.Squared())
    assert registry.build("algorithm", {"name": "DKRR", "loss": fs.Squared(l2=1)}) == fs.DKRR(fs.Squared(l2=1))


def test_none_can_be_said() -> None:
    assert registry.build("loss", {"name": "Logistic", "intercept": "none"}).intercept is None


@pytest.mark.parametrize(
    ("plain", "kind", "words"),
    [
        ({"name": "FedAvgg", "loss": LOSS}, UnknownName, ["FedAvgg", "Did you mean 'FedAvg'?"]),
        ({"loss": LOSS}, ConfigError, ["no name", "Newton"]),
        ({"name": 3}, ConfigError, ["algorithm.name", "3"]),
        ({"name": "FedAvg"}, ConfigError, ["no loss", "loss (required)", "local = GradientSteps(steps=2)"]),
        ({"name": "FedAvg", "loss": LOSS, "locl": {}}, ConfigError, ["algorithm.locl", "did you mean 'local'?"]),
        (
            {"name": "FedAvg", "loss": LOSS, "local": {"epoch": 2}},
            ConfigError,
            ["algorithm.local.epoch ", 'steps = 2, step_size = "none", batch_size = "none"'],
        ),
        ({"name": "FedAvg", "loss": LOSS, "local": {"steps": 2.5}}, ConfigError, ["a whole number", "2.5"]),
        ({"name": "FedAvg", "loss": LOSS, "local": {"steps": True}}, ConfigError, ["a whole number", "True"]),
        ({"name": "FedAvg", "loss": LOSS, "local": {"steps": 0}}, ConfigError, ["algorithm.local:", "got 0"]),
        ({"name": "FedAvg", "loss": {"name": "Logistic", "l2": "1"}}, ConfigError, ["loss.l2", "a number", "'1'"]),
        ({"name": "FedAvg", "loss": {"name": "Logistic", "l2": -1}}, ConfigError, ["algorithm.loss:", "l2"]),
        (
            {"name": "FedAvg", "loss": {"name": "Logistic", "intercept": True}},
            ConfigError,
            ["'free' or 'penalised' or 'none'"],
        ),
        ({"name": "FedAvg", "loss": {"name": "Hinge"}}, UnknownName, ["loss in algorithm.loss", "Hinge"]),
        ({"name": "FedAvg", "loss": {"l2": 1}}, ConfigError, ["algorithm.loss has no name"]),
        ({"name": "FedAvg", "loss": 3}, ConfigError, ["algorithm.loss", "table"]),
        ({"name": "Newton", "loss": LOSS, "search": "Wolfe"}, UnknownName, ["algorithm.search", "Armijo"]),
    ],
)
def test_what_is_wrong_is_said(plain: dict[str, Any], kind: type[InputError], words: list[str]) -> None:
    with pytest.raises(kind) as caught:
        registry.build("algorithm", plain)
    for word in words:
        assert word in str(caught.value)


def test_an_unknown_kind() -> None:
    with pytest.raises(UnknownName, match="kind"):
        registry.names("optimiser")
