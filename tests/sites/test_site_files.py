"""Site files and terms: what is wrong in them is said by key; what is right comes back the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

import fedsolve as fs
from fedsolve.errors import ConfigError, FedsolveError, PolicyRefusal, ProtocolMismatch
from fedsolve.federation.protocol import collect, fingerprint
from fedsolve.runfiles import registry
from fedsolve.sites import HeldOut, Site, SiteColumn, Terms, read_site_file
from fedsolve.sites.known_protocols import OF_EVERY_RUN, ON_REQUEST, built, described, roots
from tests.attack.subjects import subjects
from tests.sites.hospitals import DECLARED, LOSS, PREPROCESS, hospitals, site_text, terms

NEWTON = fs.Newton(LOSS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "name"),
        ('name = "a"', "data"),
        ('name = "a"\n[data]\nfile = "a.csv"', "target"),
        (site_text("a", "min_rows = 0"), r"policy.min_rows is a whole number"),
        (site_text("a", "min_row = 5"), "min_row"),
        (site_text("a", "largest_row = 2.0"), r"policy.largest_row is a share"),
        (site_text("a", 'algorithms = "Newton"'), "algorithms"),
        (site_text("a", 'algorithms = ["Newtn"]'), r"policy\.algorithms 'Newtn'. Did you mean 'Newton'"),
        (site_text("a", 'also = ["Evaluaton"]'), r"policy\.also 'Evaluaton'. Did you mean 'Evaluation'"),
        (
            site_text("a", 'refuse = ["local_minimizer"]'),
            r"policy\.refuse 'local_minimizer'. Did you mean 'local_minimiser'",
        ),
        (site_text("a", 'refuse = ["Newton.value"]'), r"policy\.refuse 'Newton.value'"),
        (
            site_text("a", 'features = ["RandomFourrier"]'),
            r"policy\.features 'RandomFourrier'. Did you mean 'RandomFourier'",
        ),
        (site_text("a", 'features = ["Transformer"]'), r"policy\.features 'Transformer'"),
        (site_text("a", 'columns = ["age", "presure"]'), r"policy\.columns 'presure'. Did you mean 'pressure'"),
        (site_text("a", "share_of_cells = inf"), r"policy.share_of_cells is a positive number, and finite, got inf"),
        (site_text("a", "parameters_per_row = 0"), r"policy.parameters_per_row is a positive number"),
        (site_text("a", "largest_loss = inf"), r"policy.largest_loss is a positive number, and finite, got inf"),
        (site_text("a", "largest_step = inf"), r"policy.largest_step is a positive number, and finite"),
        (site_text("a").replace("[policy]", "[polciy]"), r"polciy is not known, did you mean 'policy'\?"),
        (
            site_text("a").replace("[policy]", "[rules]"),
            r"rules is not known, known: name, data, schema, policy, store",
        ),
        (site_text("a", "min_cell = 0"), r"policy.min_cell is a whole number"),
        (site_text("a", "landmarks = true"), "landmarks"),
        (site_text("a\\u0007"), "control characters"),
        (site_text("a").replace('file = "a.csv"', "file = 3"), "file"),
        (site_text("a", data="nonsense = 1"), "nonsense"),
        ("name = [", "is not TOML"),
    ],
)
def test_what_is_wrong_in_a_site_file_is_said(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said) as error:
        read_site_file(path)
    assert str(path) in str(error.value)


def test_terms_come_back_as_they_were() -> None:
    given = Terms("ab" * 8, held_out=HeldOut(0.25, 7), site_column=SiteColumn("hospital"), target="ill")
    asked = given.asking({"algorithm": NEWTON, "preprocess": PREPROCESS})
    again = Terms.from_json(asked.to_json())
    assert again == asked
    assert again.mark() == asked.mark()
    there = again.build()
    assert fingerprint(there["algorithm"]) == fingerprint(NEWTON)
    assert fingerprint(there["preprocess"]) == fingerprint(PREPROCESS)


def known_kinds() -> set[type]:
    return {*registry.names("algorithm").values(), *OF_EVERY_RUN, *ON_REQUEST}


def test_every_protocol_that_a_run_can_have_comes_back_with_its_fingerprint() -> None:
    """Those of the library that clients answer, with all their parts, as the fuzz of messages has them."""
    seen = set()
    for subject in subjects():
        protocols = dict(subject.runtime.serves.protocols)
        if not all(type(one) in known_kinds() for one in roots(protocols).values()):
            continue  # a part by itself, such as a line search, which is no protocol of a run
        there = built(described(protocols))
        for name, protocol in protocols.items():
            assert fingerprint(there[name]) == fingerprint(protocol)
            seen.add(type(protocol))
    assert known_kinds() - seen <= {fs.FFGBDistill, fs.FedAvgDistill}  # which need torch


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 2}', '{"format": 1, "run": "xyz", "protocols": {}}', "[" * 100_000, '{"format": 1}'],
)
def test_what_are_no_terms_is_said(text: str) -> None:
    with pytest.raises(ConfigError):
        Terms.from_json(text)


@pytest.mark.parametrize("run", ["", "../../etc/cron.d", "abc", "ABCDEF0123", "0" * 65, "0123456/", 7, None])
def test_a_run_is_called_by_digits_which_name_its_folders(run: object) -> None:
    with pytest.raises(ConfigError, match="8 to 64 hexadecimal digits"):
        Terms(run)  # type: ignore[arg-type]


def test_another_version_is_said_before_anything_is_read(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    (tmp_path / "arden.csv").unlink()
    asked = terms().asking({"algorithm": NEWTON, "preprocess": PREPROCESS})
    older = Terms(asked.run, asked.protocols, version="0.0.1")
    with pytest.raises(ProtocolMismatch, match=r"of fedsolve 0\.0\.1"):
        Site(read_site_file(found.files["arden"]), older)


def test_a_refusal_comes_before_the_data_is_read(tmp_path: Path) -> None:
    found = hospitals(tmp_path, policy='algorithms = ["SHED"]')
    (tmp_path / "arden.csv").unlink()
    asked = terms().asking({"algorithm": NEWTON, "preprocess": PREPROCESS})
    with pytest.raises(PolicyRefusal, match="answers only SHED"):
        Site(read_site_file(found.files["arden"]), asked)


def test_a_site_without_one_of_the_labels_agrees_with_the_others(tmp_path: Path) -> None:
    """Labels mean the same everywhere: "yes" is 1, also at a hospital that has nobody else."""
    found = hospitals(tmp_path)
    file = tmp_path / "corrie.csv"
    file.write_text(file.read_text().replace(",no", ",yes"))
    asked = terms().asking({"algorithm": NEWTON, "preprocess": PREPROCESS})
    assert set(Site(read_site_file(found.files["corrie"]), asked).client.y.tolist()) == {1.0}


def test_columns_in_another_order_are_the_same_columns(tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    file = tmp_path / "dale.csv"
    lines = [line.split(",") for line in file.read_text().splitlines()]
    file.write_text("\n".join(",".join([d, c, b, a]) for a, b, c, d in lines) + "\n")
    asked = terms().asking({"algorithm": NEWTON, "preprocess": PREPROCESS})
    client = Site(read_site_file(found.files["dale"]), asked).client
    assert client.feature_names == ("age", "pressure", "sex")


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("", "this site has none"),
        ('[[schema]]\nname = "age"\n[[schema]]\nname = "pressure"', "asks for column 'sex'"),
        (
            DECLARED.replace('"f", "m"', '"m", "f"'),
            "other categories",
        ),
    ],
)
def test_a_schema_that_differs_is_refused(declared: str, said: str, tmp_path: Path) -> None:
    found = hospitals(tmp_path)
    found.files["arden"].write_text(site_text("arden", declared=declared))
    asked = terms().asking({"algorithm": NEWTON, "preprocess": PREPROCESS})
    with pytest.raises(FedsolveError, match=said):
        Site(read_site_file(found.files["arden"]), asked)


def test_protocols_of_ones_own_stay_in_simulations() -> None:
    @dataclass(frozen=True)
    class Own:
        size: int = 3

    with pytest.raises(ConfigError, match="no protocol of fedsolve's own"):
        described(dict(collect("algorithm", Own())))
