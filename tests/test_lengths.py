"""Files and functions stay short enough to be read, and typed: limits on lines, on cyclomatic complexity and on Any."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "fedsolve"
ALGORITHMS = sorted((LIBRARY / "algorithms").glob("*.py"))
FUNCTION = 60
ALGORITHM = 150
SHORTER = {"newton.py": 90, "shed.py": 130}


@pytest.mark.parametrize("path", ALGORITHMS, ids=lambda path: path.name)
def test_an_algorithm_is_read_in_one_go(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= SHORTER.get(path.name, ALGORITHM)


def too_long(folder: Path) -> dict[str, int]:
    """The functions over the limit, from `def` to the last line, with how many lines they have."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION:
                    found[f"{path.relative_to(folder)}: {node.name}"] = lines
    return found


def test_no_function_is_longer_than_sixty_lines() -> None:
    assert too_long(LIBRARY) == {}


def test_a_function_that_is_too_long_is_found(tmp_path: Path) -> None:
    body = "    x = 1\n"
    (tmp_path / "short.py").write_text("class A:\n    def fits(self):\n" + ("    " + body) * 59)
    (tmp_path / "long.py").write_text("@cache\nasync def endless():\n" + body * 60)
    assert too_long(tmp_path) == {"long.py: endless": 61}


def test_few_values_may_be_anything() -> None:
    """How often the word Any stands in the library, lines that import it apart."""
    lines = [line for path in LIBRARY.rglob("*.py") for line in path.read_text().splitlines()]
    words = [
        word for line in lines if not re.match(r"\s*(from|import) ", line) for word in re.findall(r"\bAny\b", line)
    ]
    assert len(words) < 150


def complaints(folder: Path) -> list[str]:
    """What ruff says of the complexity of the functions in a folder, by the limit in pyproject.toml."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--no-cache",
        "--select",
        "C901",
        "--output-format",
        "concise",
        ".",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    return [line for line in done.stdout.splitlines() if "C901" in line]


def test_no_function_is_too_complex() -> None:
    assert complaints(LIBRARY) == []


@pytest.mark.parametrize(("branches", "found"), [(14, 0), (15, 1)])
def test_a_function_that_is_too_complex_is_found(tmp_path: Path, branches: int, found: int) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    tests = "".join(f"    if x == {n}:\n        return {n}\n" for n in range(branches))
    (tmp_path / "maze.py").write_text(f"def maze(x):\n{tests}")
    assert len(complaints(tmp_path)) == found


# Where algorithms are defined, registered, shown or reproduced.
KNOWS_ALGORITHMS = {"algorithms", "curvature", "runfiles", "cli", "reproduce", "__init__.py"}


def test_the_core_does_not_know_shed_by_name() -> None:
    """What an algorithm can do is an attribute of it, such as `fits_link`."""
    core = [
        path for path in sorted(LIBRARY.rglob("*.py")) if path.relative_to(LIBRARY).parts[0] not in KNOWS_ALGORITHMS
    ]
    assert len(core) > 50
    assert [str(path.relative_to(LIBRARY)) for path in core if re.search(r"\bSHED", path.read_text())] == []
