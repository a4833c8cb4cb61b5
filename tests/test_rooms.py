"""The order of the rooms is held by import-linter; imports are where a reader looks for them."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "fedsolve"


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command as lint; lint()"
    command = [sys.executable, "-c", code, "--no-cache", "--config", "pyproject.toml"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(LIBRARY, tmp_path / "fedsolve", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_each_room_imports_only_rooms_before_it(copy: Path) -> None:
    done = _lint(copy)
    assert done.returncode == 0, done.stdout


def test_a_forbidden_import_is_caught(copy: Path) -> None:
    module = copy / "fedsolve" / "federation" / "ledger.py"
    module.write_text(module.read_text() + "\nfrom fedsolve.algorithms.newton import Newton\n")
    done = _lint(copy)
    assert done.returncode == 1
    assert "fedsolve.federation.ledger -> fedsolve.algorithms.newton" in done.stdout


def test_a_room_that_nobody_listed_is_caught(copy: Path) -> None:
    (copy / "fedsolve" / "attic.py").write_text("")
    done = _lint(copy)
    assert done.returncode == 1
    assert "attic" in done.stdout


def _inner_imports(module: Path) -> list[str]:
    """Imports of the library's own modules inside functions."""
    found = []
    for function in ast.walk(ast.parse(module.read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                found += [name for name in names if name.split(".")[0] == "fedsolve"]
    return found


def test_no_import_hides_in_a_function() -> None:
    assert {str(path): names for path in LIBRARY.rglob("*.py") if (names := _inner_imports(path))} == {}
