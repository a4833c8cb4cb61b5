"""What someone meets who tries it for the first time: every wrong turn is answered by what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.federation.protocol import describe
from fedsolve.loop.differences import differences
from fedsolve.runfiles import run_file as config
from fedsolve.runfiles.portable import from_anywhere

from .conftest import Command

TABLE = """
[data]
file = "own.csv"
target = "y"
split_by = "site"
{preprocess}
[algorithm]
name = "Newton"
loss = {{ name = "Logistic", l2 = 0.1, intercept = "free" }}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A table with a category that the run file forgets, and its run file."""
    rng = np.random.default_rng(0)
    lines = ["site,age,kind,y"]
    for i in range(60):
        lines.append(f"{'ab'[i % 2]},{rng.normal(50, 10):.1f},{('x', 'y', 'z')[i % 3]},{int(rng.random() < 0.5)}")
    (tmp_path / "own.csv").write_text("\n".join(lines) + "\n")
    schema = '[[preprocess.schema]]\nname = "age"\n[[preprocess.schema]]\nname = "kind"\ncategories = ["x", "y"]\n'
    path = tmp_path / "own.toml"
    path.write_text(TABLE.format(preprocess=schema))
    return path


def test_a_forgotten_category_is_noticed(command: Command, own: Path, tmp_path: Path) -> None:
    outcome = command("run", own, "--output", "out")
    assert outcome.status == 0
    assert "33% of kind in no declared category" in outcome.out
    assert "Missing and unseen cells" in (tmp_path / "out/report.html").read_text()
    assert command("run", own, "--output", "out2", "--json").json["unseen"] == {"kind": pytest.approx(1 / 3)}


def test_the_copied_run_file_works_from_the_run_folder(command: Command, own: Path, tmp_path: Path) -> None:
    assert command("run", own, "--output", "out").status == 0
    assert command("run", "out/config.toml", "--output", "again").status == 0
    assert np.array_equal(fs.load_model("out/model.npz").w, fs.load_model("again/model.npz").w)


@pytest.mark.parametrize(
    "text",
    ['[data]\nfile = "own.csv" # here\n', "data = { file = 'own.csv', target = 'y' }\n", 'data.file = "own.csv"\n'],
)
def test_relative_paths_become_absolute(text: str, tmp_path: Path) -> None:
    changed = from_anywhere(text, tmp_path)
    assert str(tmp_path.resolve() / "own.csv") in changed
    assert from_anywhere(changed, Path("/elsewhere")) == changed


def test_a_path_that_cannot_be_replaced_is_told(tmp_path: Path) -> None:
    text = '[data]\nfile = """own.csv"""\n'
    assert from_anywhere(text, tmp_path) == f"# Paths of files start from the folder {tmp_path}\n{text}"


def test_a_file_given_as_a_data_set(command: Command, run_file: Callable[..., Path]) -> None:
    outcome = command("run", run_file(('"breast_cancer"', '"mine/own.csv"')))
    assert outcome.status == 2
    assert "use file = 'mine/own.csv'" in outcome.sentence


def test_an_empty_run_file_gets_a_small_one(command: Command, tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text("# nothing yet\n")
    outcome = command("run", "empty.toml")
    assert outcome.status == 2
    assert "empty.toml is empty" in outcome.err
    assert config.MINIMAL in outcome.err


def test_errors_of_the_algorithm_name_the_run_file(command: Command, run_file: Callable[..., Path]) -> None:
    for wrong in (("l2 = 0.01", "l3 = 0.01"), ('name = "Newton"', 'name = "Newtom"'), ('"dirichlet"', '"dirichlt"')):
        outcome = command("run", run_file(wrong))
        assert outcome.status == 2
        assert "problem.toml: " in outcome.sentence


def test_a_mistyped_command(command: Command) -> None:
    assert command("rum").sentence == "No such command 'rum'. Did you mean 'run'? See fedsolve --help."


def test_help_says_where_the_keys_are(command: Command) -> None:
    assert "docs/run-file.md" in command("run", "--help").out


def test_predict_names_the_cell_that_is_no_number(command: Command, own: Path, tmp_path: Path) -> None:
    assert command("run", own, "--output", "out").status == 0
    (tmp_path / "new.csv").write_text("age,kind\n50,x\nold,y\n")
    outcome = command("predict", "out", "new.csv")
    assert outcome.status == 2
    assert outcome.sentence.startswith(
        "new.csv, line 3, column age: 'old' is not a number; correct it, or say --na age=old"
    )


def test_predict_without_preprocessing(command: Command, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text(
        "site,age,y\n" + "".join(f"{'ab'[i % 2]},{i % 7},{i % 3 % 2}\n" for i in range(40))
    )
    (tmp_path / "own.toml").write_text(TABLE.format(preprocess=""))
    assert command("run", "own.toml", "--output", "out").status == 0
    (tmp_path / "new.csv").write_text("age\nold\n5\n")
    assert "new.csv, line 2, column age: 'old' is not a number" in command("predict", "out", "new.csv").sentence
    model = fs.load_model("out/model.npz")
    for cell, said in (("old", "'old' is no number"), (None, "no preprocessing"), (np.nan, "no preprocessing")):
        with pytest.raises(fs.errors.InputError, match=f"column 'age', row 1 .*{said}"):
            model.predict(np.array([[1.0], [cell]], dtype=object))


def test_predict_on_the_folder_of_a_comparison(command: Command, run_file: Callable[..., Path]) -> None:
    several = run_file(("[algorithm]", "[[algorithms]]"), ("[algorithm.loss]", "[algorithms.loss]"))
    assert command("compare", several, "--output", "out").status == 0
    outcome = command("predict", "out", "breast_cancer")
    assert outcome.status == 2
    assert str(Path("out/Newton")) in outcome.sentence


def test_predict_on_an_unfinished_run(command: Command, run_file: Callable[..., Path], tmp_path: Path) -> None:
    assert command("run", run_file(), "--output", "out").status == 0
    (tmp_path / "out/model.npz").unlink()
    said = command("predict", "out", "breast_cancer").sentence
    assert "unfinished" in said
    resume = re.search(r"resume it with: fedsolve (.*)", said)
    assert resume is not None
    assert command(*resume[1].split()).status == 0
    assert command("predict", "out", "breast_cancer").status == 0
    (tmp_path / "nothing").mkdir()
    assert "not the folder of a run" in command("predict", "nothing", "breast_cancer").sentence


def test_classes_of_a_softmax_have_their_names(command: Command, run_file: Callable[..., Path]) -> None:
    file = run_file(
        ('"breast_cancer"', '"iris"'), ('"Logistic"', '"Softmax"\nclasses = 3'), ("min_samples = 20", "min_samples = 5")
    )
    result = command("run", file, "--output", "out", "--json").json
    assert result["score"] == "accuracy"
    assert result["scores"]["train"] > 0.9
    predicted = command("predict", "out", "iris", "--json").json
    assert set(predicted["predictions"]) == {"setosa", "versicolor", "virginica"}
    assert predicted["score"] == result["scores"]["train"]


def test_a_checkpoint_of_another_run_says_what_differs(command: Command, run_file: Callable[..., Path]) -> None:
    assert command("run", run_file(), "--output", "out").status == 0
    outcome = command("run", run_file(("l2 = 0.01", "l2 = 0.5")), "--output", "out", "--resume")
    assert outcome.status == 2
    assert "algorithm.loss.l2 was 0.01, is 0.5" in outcome.sentence
    assert len(outcome.sentence) < 300


def test_differences_between_runs() -> None:
    def identity(algorithm: object, preprocess: object, seed: int, clients: tuple[str, ...]) -> str:
        return describe((algorithm, preprocess, seed, clients))

    newton = fs.Newton(fs.Logistic(l2=0.1))
    one = identity(newton, None, 0, ("a", "b, c", "it's"))
    assert differences(one, one) == []
    assert differences(one, identity(newton, None, 3, ("a", "b, c", "it's"))) == ["seed was 0, is 3"]
    assert differences(one, identity(newton, None, 0, ("b, c", "a", "it's"))) == [
        "clients: 3 then, 3 now, in another order"
    ]
    assert differences(one, identity(newton, None, 0, ("a", "d"))) == [
        "clients: 3 then, 2 now, without 'b, c', \"it's\" and with 'd'"
    ]
    found = differences(one, identity(fs.FedAvg(fs.Squared()), fs.data.Preprocess(), 0, ("a", "b, c", "it's")))
    assert [line.split(" was ")[0] for line in found] == ["algorithm", "preprocess"]
    assert differences("something", "else") == ["then something, now else"]


def test_a_folder_with_a_checkpoint_offers_to_go_on(
    command: Command, run_file: Callable[..., Path], tmp_path: Path
) -> None:
    assert command("run", run_file(), "--output", "out").status == 0
    said = command("run", run_file(), "--output", "out").sentence
    assert "--resume" in said
    assert "--force" in said
    (tmp_path / "out/checkpoint.bin").unlink()
    assert "--resume" not in command("run", run_file(), "--output", "out").sentence


def test_help_names_the_table_of_select(command: Command) -> None:
    for arguments in (("--help",), ("select", "--help")):
        assert "as [select] of a run" in " ".join(command(*arguments).out.replace("│", " ").split())


def test_one_round_is_not_rounds(command: Command, run_file: Callable[..., Path]) -> None:
    out = command("run", run_file(("rounds = 20", "rounds = 1")), "--output", "out", "--json").json
    assert out["message"] == "the budget of 1 round is used up"
    out = command("run", run_file(("rounds = 20", "rounds = 0")), "--output", "none", "--json").json
    assert out["message"] == "the budget of 0 rounds is used up"
