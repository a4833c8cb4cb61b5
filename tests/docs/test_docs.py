"""The documentation is true: its snippets and run files run, its links and paths exist, its tables are complete."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.cli.main import app
from fedsolve.deploy.project_file import Project
from fedsolve.runfiles import keys, registry, server_file
from fedsolve.runfiles import run_file as config
from fedsolve.sites.site_file import parse_site_file

ROOT = Path(__file__).parents[2]
DOCUMENTS = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
EXAMPLES = ROOT / "examples"


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to write in, from which `examples/` is found as from the root of the repository."""
    (tmp_path / "examples").symlink_to(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/guide.md",
    "docs/diagnosis.md",
    "docs/joining.md",
    "docs/links.md",
    "docs/stopping.md",
    "docs/summary.md",
    "docs/algorithms.md",
    "docs/boosting.md",
    "docs/networks.md",
    "docs/comparing.md",
    "docs/estimators.md",
    "docs/own-files.md",
    "docs/formulas.md",
]


@pytest.mark.parametrize("name", PAGES)
def test_the_snippets_run(name: str, folder: Path) -> None:
    """They run as a script, so that worker processes find the classes it defines."""
    pytest.importorskip("pandas")
    if name == "docs/networks.md":
        pytest.importorskip("torch")
    script = folder / "snippets.py"
    script.write_text("\n".join(blocks(ROOT / name, "python")), encoding="utf-8")
    ran = subprocess.run(
        # The examples are small, and a run says so.
        [sys.executable, "-W", "error", "-W", "ignore:the fit has", "-W", "ignore:client", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ran.returncode == 0, ran.stderr


def test_what_the_guide_says_of_its_results(folder: Path) -> None:
    script = folder / "guide.py"
    code = "\n".join(blocks(ROOT / "docs/guide.md", "python"))
    script.write_text(code.replace('transport="processes"', 'transport="in_process"'), encoding="utf-8")
    names = runpy.run_path(str(script))
    run = names["sparse"]
    zero = [name for name, value in run.model.coefficients().items() if value == 0.0]
    assert zero == ["pressure=missing", "smoker=former", "smoker=other"]
    assert names["model"].predict(names["new"]).tolist() == [1, 0]
    assert names["model"].predict_proba(names["new"])[:, 1].round(2).tolist() == [0.86, 0.12]
    some = names["some"]
    assert (some.status, some.rounds, some.history[-1].cohort) == ("rounds", 100, 3)
    assert some.history[-1].share == pytest.approx(0.725)
    assert names["found"].ledger.total().exchanges == 9
    assert names["two"].model.coef.shape == (9, 2)
    assert names["flowers"].converged
    assert names["flowers"].model.coef.shape == (4, 3)
    assert names["rates"].converged
    assert names["longer"].rounds == 40
    assert np.allclose(names["rates"].model.coef, [0.3, -0.2, 0.0], atol=0.1)
    assert names["shed"].converged
    with pytest.raises(fs.errors.LinkExceeded, match=r"'client-0'.*more than 4,216 bytes .* 1,300"):
        fs.run(fs.Newton(names["loss"]), names["linked"], preprocess=fs.data.Preprocess())
    found = names["found"]
    assert (found.best.l2, found.best.features) == (1e-4, fs.RandomFourier(50, gamma=0.01))
    assert names["chosen"].converged
    first = fs.run(fs.Newton(fs.Logistic(l2=0.01, intercept="free")), names["by_site"], preprocess=names["preprocess"])
    weights = first.model.coefficients()
    assert [round(value, 2) for value in weights.values()] == [0.53, 0.48, -0.11, 0.46, 1.56, 0.85, -0.96]
    assert first.model.predict(names["new"]).tolist() == ["yes", "no"]
    assert (first.certificate.kind, first.certificate.is_bound) == ("newton decrement", False)
    assert 0 <= first.certificate.gap < 1e-17
    rho = names["rho"]
    assert (rho.verdict, round(rho.rho, 3)) == ("converges", 0.017)
    assert [round(value, 2) for value in names["rates"].model.coefficients().values()] == [0.32, -0.20, 0.02, -0.99]
    assert found.ledger.total().bytes_up == pytest.approx(14.9e6, rel=0.01)


def test_what_the_guide_says_of_the_first_runs_ledger_and_of_held_out_rows(folder: Path) -> None:
    code = blocks(ROOT / "docs/guide.md", "python")
    until = next(place for place, block in enumerate(code) if "hold_out" in block)
    script = folder / "guide.py"
    script.write_text("\n".join(code[:until]), encoding="utf-8")
    names = runpy.run_path(str(script))
    ledger = names["run"].ledger
    sent = [ledger.total(purpose).bytes_up for purpose in ("algorithm", "setup", "measure", None)]
    assert sent == [9120, 4896, 576, 14592]
    assert names["run"].model.transform.notice() == "Look at the data: 6% of pressure missing."
    assert names["table"].target_names == ("no", "yes")
    script.write_text("\n".join(code[: until + 1]), encoding="utf-8")
    names = runpy.run_path(str(script))
    held = names["found"]
    figures = (held.accuracy, held.deviance, held.brier, held.calibration_slope, held.auc, held.clients["Arden"].auc)
    assert [round(figure, 3) for figure in figures] == [0.627, 1.095, 0.186, 1.219, 0.768, 0.696]
    assert held.auc_error == 0.0
    y = np.concatenate([client.held.y for client in names["judged"]])
    steps = np.diff(np.array(held.curve), axis=0) * [(y == 0).sum(), (y == 1).sum()]  # rows of either class, by bin
    assert (len(y), (steps.sum(axis=1).round() == 1).sum()) == (51, 33)
    coarse = fs.Evaluation(names["loss"], least=5)
    run = fs.run(fs.Newton(names["loss"]), names["judged"], preprocess=names["preprocess"], evaluation=coarse)
    assert round(run.evaluation.auc_error, 2) == 0.31


def snippets(page: str, folder: Path) -> dict[str, Any]:
    """What the snippets of a page define."""
    script = folder / "page.py"
    script.write_text("\n".join(blocks(ROOT / page, "python")), encoding="utf-8")
    return runpy.run_path(str(script))


def test_what_the_page_on_links_says_of_its_results(folder: Path) -> None:
    names = snippets("docs/links.md", folder)
    assert names["shed"].converged
    assert names["periodic"].converged
    assert [row.cohort for row in names["back"].history][:8] == [4, 4, 3, 3, 3, 3, 4, 4]
    assert names["most"] == 632


def test_what_the_page_on_formulas_says_of_knots(folder: Path) -> None:
    found = snippets("docs/formulas.md", folder)["run"].summary()
    (said,) = re.findall(r'"(bs\(chol, df=4\) has knots .*?)"', (ROOT / "docs/formulas.md").read_text(encoding="utf-8"))
    assert f"{said}." in found.notes


def test_what_the_page_on_stopping_says_of_its_results(folder: Path) -> None:
    names = snippets("docs/stopping.md", folder)
    run, patient, early = names["run"], names["patient"], names["early"]
    assert run.converged
    assert (run.certificate.kind, run.certificate.is_bound) == ("newton decrement", False)
    assert (patient.status, patient.rounds) == ("patience", 10)
    assert "the model is that of round 5" in patient.message
    assert (early.status, early.rounds) == ("early stopping", 69)


def test_what_the_page_on_comparing_says_a_run_costs(folder: Path) -> None:
    """In every exchange a gradient and 31 columns of a Hessian per row of the largest client, and φ for each client."""
    code = blocks(ROOT / "docs/comparing.md", "python")
    until = next(place for place, block in enumerate(code) if "oracle_complexity" in block)
    script = folder / "page.py"
    script.write_text("\n".join(code[: until + 1]), encoding="utf-8")
    names = runpy.run_path(str(script))
    exchange = max(client.n_samples for client in names["clients"]) * (1 + 31) + 5 * 100
    cost = names["cost"]
    assert (cost.total, cost.curve[2]) == ((1 + names["newton"].rounds) * exchange, 3 * exchange) == (81684.0, 27228.0)


def test_what_the_page_on_diagnosis_finds_and_costs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = snippets("docs/diagnosis.md", folder)
    assert names["verdict"] == "diverges"
    assert names["alone"] == "alone, client-1 cannot fit a model (no finite minimiser), and needs the others"
    rho, differs, apart = names["rho"], names["differs"], names["apart"]
    assert set(differs.sentences()) == {"data", "model", "dimension"}
    assert (rho.verdict, round(rho.rho, 3), rho.ledger.total(None).exchanges) == ("converges", 0.017, 17)
    assert rho.sentence.startswith("plain FedNewton converges here (ρ ≈ 0.017, below 0.018), in about 5 rounds to 1e-8")
    assert differs.ledger.total(None).bytes_up == 9792
    assert apart.sentence().endswith(": no sign that inputs differ")
    with pytest.raises(SystemExit) as ended:
        app(["diagnose", str(EXAMPLES / "hospitals.toml")])
    assert not ended.value.code
    assert "40 exchanges, 1.12 MB up" in " ".join(capsys.readouterr().out.split())
    cancer, loss = fs.data.load("breast_cancer"), fs.Logistic(l2=0.01, intercept="free")
    clients = fs.data.partition(cancer.X, cancer.y, fs.data.Dirichlet(0.5, min_samples=20), clients=5, seed=1)
    questions = {"rho": fs.diagnose.Contraction(loss), "other": fs.diagnose.Heterogeneity(loss)}
    with fs.Session(clients, also=questions | {"inputs": fs.diagnose.InputDistance()}) as session:
        fs.run(fs.Newton(loss), session, preprocess=fs.data.Preprocess())
        found = [fs.diagnose.contraction(loss, session), fs.diagnose.heterogeneity(loss, session)]
        costs = [one.ledger.total(None) for one in (*found, fs.diagnose.input_distances(session))]
    assert [cost.exchanges for cost in costs] == [17, 12, 6]
    assert [round(cost.bytes_up / 1000) for cost in costs] == [31, 219, 850]
    with fs.Session(clients) as session:  # a question that was not announced
        fs.run(fs.Newton(loss), session, preprocess=fs.data.Preprocess())
        with pytest.raises(fs.errors.ConfigError, match=r"Session\(…, also=…\)"):
            fs.diagnose.contraction(loss, session)


@pytest.mark.parametrize("p", [5, 40])
def test_what_the_page_says_a_link_must_carry(p: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, p))
    y = rng.poisson(np.exp(2 * X[:, 0]).clip(max=200)).astype(float)

    def vectors(algorithm: object, carries: int) -> bool:
        link = fs.Link(bytes_per_round=carries)
        clients = [fs.Client(name, X[part::2], y[part::2], link=link) for part, name in enumerate("ab")]
        run = fs.run(algorithm, clients, rounds=8, tolerance=0)  # type: ignore[arg-type]
        calls = run.ledger.by_call()
        if not isinstance(algorithm, fs.SHEDLeastSquares):
            assert ("algorithm.search.losses_along", "algorithm") in calls
        sent = [entry for entry in run.ledger.entries() if entry.direction == "up" and "eigenpairs" in entry.call]
        return any(entry.scalars > p for entry in sent)

    poisson, squared = fs.Poisson(l2=0.01), fs.Squared(l2=0.01)
    shed, mont_dec = fs.SHED(poisson, increment="link"), fs.MontDec(poisson, increment="link")
    least_squares = fs.SHEDLeastSquares(squared, increment="link")
    for algorithm, gradient, vector in (
        (shed, 8 * p + 640, 10 * p + 900),
        (least_squares, 8 * p + 240, 16 * p + 500),
        (mont_dec, 8 * p + 640, 16 * p + 900),
    ):
        assert not vectors(algorithm, gradient)
        assert vectors(algorithm, vector)
        with pytest.raises(fs.errors.LinkExceeded):
            vectors(algorithm, gradient - 40)


def test_every_feature_map_and_algorithm_is_described() -> None:
    text = (ROOT / "docs/run-file.md").read_text(encoding="utf-8")
    for name in registry.names("feature map"):
        assert f"| `{name}` |" in text
    algorithms = (ROOT / "docs/algorithms.md").read_text(encoding="utf-8")
    for name in (*registry.names("algorithm"), *registry.names("loss")):
        assert f"| `{name}` |" in algorithms


def test_the_skeleton_is_an_algorithm(folder: Path) -> None:
    script = folder / "skeleton.py"
    script.write_text(blocks(ROOT / "CONTRIBUTING.md", "python")[0] + USE_OF_THE_SKELETON, encoding="utf-8")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


USE_OF_THE_SKELETON = """
import fedsolve as fs

data = fs.data.load("diabetes")
clients = fs.data.partition(data.X, data.y, clients=3)
for transport in ("in_process", "processes"):
    skeleton, preprocess = Name(fs.Squared(l2=0.1)), fs.data.Preprocess()
    run = fs.run(skeleton, clients, preprocess=preprocess, rounds=1000, tolerance=1e-2, transport=transport)
    assert run.converged
"""


def test_the_readme_leads_to_every_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for document in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{document.name})" in text
    index = (ROOT / "docs/reproduce/README.md").read_text(encoding="utf-8")
    for document in (ROOT / "docs/reproduce").glob("*.md"):
        assert document.name == "README.md" or f"({document.name})" in index
    assert "(docs/reproduce/README.md)" in text


def test_the_readme_starts_with_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0]
    commands = [line.split()[0] for line in first.splitlines() if line.startswith("scripts/")]
    assert commands == ["scripts/demo", "scripts/test"]
    assert all(os.access(ROOT / command, os.X_OK) for command in commands)


def _tree() -> tuple[list[str], list[str]]:
    """The rooms of the tree in docs/architecture.md in order, and every path it names."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rooms: list[str] = []
    paths: list[str] = []
    for line in text.split("```\nfedsolve/\n")[1].split("```")[0].splitlines():
        named = re.findall(r"([a-z_]+(?:\.py|/))(?=[\s:,)]|$)", line)
        within = rooms[-1] if line.startswith("    ") else ""
        if named and named[0].endswith("/"):  # the rest of the line is about what is in this folder
            within, named = within + named[0], named[1:]
            paths.append(within)
        if not line.startswith("    "):
            rooms += [within] if within else named
        paths += [within + name for name in named]
    return rooms, paths


def test_the_tree_names_what_there_is() -> None:
    for path in _tree()[1]:
        assert (ROOT / "fedsolve" / path).exists(), path


def test_the_tree_has_every_room_in_the_order_that_is_checked() -> None:
    rooms = [room.rstrip("/").removesuffix(".py") for room in _tree()[0]]
    with (ROOT / "pyproject.toml").open("rb") as file:
        layers = tomllib.load(file)["tool"]["importlinter"]["contracts"][0]["layers"]
    ranks = {room.strip(): rank for rank, layer in enumerate(reversed(layers)) for room in layer.split("|")}
    assert set(rooms) == set(ranks)
    assert [ranks[room] for room in rooms] == sorted(ranks.values())


SPEAKING = [path for path in DOCUMENTS if "decisions" not in path.parts]


@pytest.mark.parametrize("path", SPEAKING, ids=lambda path: path.name)
def test_paths_that_the_text_names_exist(path: Path) -> None:
    named = re.findall(r"`((?:fedsolve|tests|examples|benchmarks|docs|scripts)/[\w./-]*[\w/])", path.read_text("utf-8"))
    for name in named:
        if name not in (
            "fedsolve/algorithms/",
            "fedsolve/reproduce/fednewton/table9.py",
        ):  # to be written by the reader
            assert (ROOT / name).exists(), name


@pytest.mark.parametrize(
    "path", [*SPEAKING, *sorted((ROOT / "fedsolve/reproduce").rglob("*.py"))], ids=lambda path: path.stem
)
def test_papers_are_cited_by_name(path: Path) -> None:
    """A reader has this repository and nothing else: no numbers for papers, no notes kept elsewhere."""
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"[Pp]aper 00\d|\b[Tt]he notes'|the notes (?:have|say|on|do)|design\.md|style\.md", text) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_run_files_are_valid(path: Path) -> None:
    for text in blocks(path, "toml"):
        tables = tomllib.loads(text)
        if isinstance(tables.get("sites"), list):  # who takes part in a federation
            Project.model_validate(tables)
        elif "sites" in tables:  # the server's half of a run file
            server_file.parse(text, path.name)
        elif "name" in tables:  # a site's half
            parse_site_file(text, path)
        else:
            config.parse(text, path.name)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        page = path.parent / name if name else path
        assert page.exists(), target
        assert not anchor or anchor in _anchors(page), target


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_key_of_a_run_file_is_described() -> None:
    text = (ROOT / "docs/run-file.md").read_text(encoding="utf-8")
    tables = {
        "data": keys.Data,
        "partition": keys.Partition,
        "run": keys.Budget,
        "participation": keys.ParticipationTable,
        "evaluation": keys.EvaluationTable,
        "stopping": keys.StoppingTable,
        "select": keys.Select,
        "gain": keys.Gain,
        "compare": keys.Compare,
        "loggers": keys.Loggers,
        "modules": keys.Modules,
        "summary": keys.SummaryTable,
        "output": keys.Output,
    }
    for name, table in tables.items():
        part = text.split(f"## [{name}]")[1].split("\n## ")[0]
        described = set(re.findall(r"^\| `(\w+)`", part, re.MULTILINE))
        scheme = {"alpha", "min_samples", "k", "s", "indices"} if name == "partition" else set()
        assert described - scheme == set(table.model_fields), name
    for name in keys.Config.model_fields:
        assert f"[{name}" in text


def test_the_message_for_an_empty_run_file_shows_a_valid_one() -> None:
    config.parse(config.MINIMAL)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_run_files_of_the_examples(path: Path) -> None:
    config.read(path)


def test_own_data_in_python_and_by_run_file_is_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_hand = runpy.run_path(str(EXAMPLES / "own_data.py"))["main"]()
    assert by_hand.converged
    for file in (EXAMPLES / "own_data.toml", folder / "first" / "config.toml"):  # the copy in the run folder too
        with pytest.raises(SystemExit) as ended:
            app(["run", str(file), "--output", "first" if file.parent == EXAMPLES else "second"])
        assert not ended.value.code
    said = capsys.readouterr().out
    assert "6% of pressure missing" in said
    for name in ("first", "second"):
        model = fs.load_model(folder / name / "model.npz")
        assert np.array_equal(model.w, by_hand.model.w)
        assert model.predict(np.array([[71, 150, "current"]], dtype=object)) == ["yes"]


def test_the_comparisons_of_the_page_run(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both run files, the second with the module that the page shows, under the name it has there."""
    monkeypatch.setattr(sys, "path", list(sys.path))  # the folder of the run file joins it
    monkeypatch.delitem(sys.modules, "my_methods", raising=False)
    page = ROOT / "docs/comparing.md"
    first, second = blocks(page, "toml")
    (method,) = [code for code in blocks(page, "python") if "class Descent" in code]
    (folder / "my_methods.py").write_text(method, encoding="utf-8")
    quick = {"rounds = 20": "rounds = 2", "seeds = 3": "seeds = 2"}
    for name, text in (("first", first), ("second", second)):
        for old, new in quick.items():
            text = text.replace(old, new)
        (folder / f"{name}.toml").write_text(text + "[output]\nfigures = false\n", encoding="utf-8")
        with pytest.raises(SystemExit) as ended:
            app(["compare", f"{name}.toml", "--output", name])
        assert not ended.value.code
        assert (folder / name / "rounds.csv").is_file()
    said = " ".join(capsys.readouterr().out.split())
    assert "Medians over 2 seeds" in said
    assert "Descent" in said
