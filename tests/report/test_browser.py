"""The report in a browser: axe-core finds no fault of accessibility, and no page is wider than a phone.

It needs Chromium and axe-core (AXE_CORE=…/axe.min.js names its file; without it, `npm pack axe-core` is tried). Where
either is missing, the tests are skipped and say so.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.report import evaluation as held_out
from fedsolve.report import run_page as pages
from fedsolve.report import summarise, tables
from fedsolve.report.figures import convergence

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
WIDTHS = (1280, 390)
GRAVE = ("serious", "critical")
ASK = """
<script>%s</script>
<script>
addEventListener("load", async () => {
  const cut = [...document.querySelectorAll("body *")].filter(one => !one.closest(".scroll, pre")
    && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 80));
  document.querySelectorAll("details").forEach(one => one.open = true);
  const found = await axe.run(document, {resultTypes: ["violations"]});
  parent.postMessage(JSON.stringify({cut, width: innerWidth, violations: found.violations.map(
    one => [one.impact, one.id, one.nodes.length, one.nodes[0].html.slice(0, 200)])}), "*");
});
</script>
"""
# No window is narrower than 500 pixels, so the page is put into a frame that is.
FRAME = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>frame</title></head><body><script>
addEventListener("message", event => {
  const said = document.createElement("pre");
  said.id = "found";
  said.textContent = event.data;
  document.body.append(said);
});
</script><iframe style="width: %dpx; height: 2000px; border: 0" srcdoc="%s"></iframe></body></html>
"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core."""
    given = os.environ.get("AXE_CORE")
    if given is not None:
        return Path(given).read_text(encoding="utf-8")
    folder = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm here to fetch axe-core with, and AXE_CORE names no file")
    try:
        subprocess.run([npm, "pack", "axe-core"], cwd=folder, check=True, capture_output=True, timeout=60)
        with tarfile.open(next(folder.glob("axe-core-*.tgz"))) as archive:
            source = archive.extractfile("package/axe.min.js")
            assert source is not None
            return source.read().decode()
    except (subprocess.SubprocessError, StopIteration, OSError) as error:
        pytest.skip(f"npm could not fetch axe-core: {error}")


@pytest.fixture(scope="module")
def run_page() -> str:
    """A page with every part: held-out rows, gains, notices, a site that was missing, names that are long."""
    data = fs.data.load("breast_cancer")
    names = ["Ålesund", "a hospital with a name that is longer than a phone is wide, as some are", "c"]
    clients = fs.data.hold_out(
        fs.data.partition(data.X, data.y, clients=3, seed=0, names=names, feature_names=data.feature_names), 0.3
    )
    loss = fs.Logistic(l2=0.01, intercept="free")
    away = fs.Replay(cohorts={(2, 0): tuple(names[:2])})
    run = fs.run(
        fs.Newton(loss),
        clients,
        preprocess=fs.data.Preprocess(),
        evaluation=fs.Evaluation(loss),
        participation=away,
        min_rows=5,
        seed=0,
    )
    gains = fs.federation_gain(run)
    assert run.evaluation is not None
    figure = convergence({"Newton": run.history}, title="Newton")
    drawn = held_out.figure(run.evaluation)
    text = "[data]\ndataset = 'breast_cancer'  # " + 40 * "a long line "
    about = pages.About("Newton on breast_cancer", "569 rows", "fedsolve run x.toml", figure, text, held_out=drawn)
    return pages.run_page(about, run, summarise(run, "Newton", clients), gains)


@pytest.fixture(scope="module")
def comparison() -> str:
    """Eight runs, so that two lines are grey, and one that could not run."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3))
    clients = fs.data.partition(X, X @ [1.0, 2.0, 3.0], clients=3)
    runs = {f"FedAvg {i}": fs.run(fs.FedAvg(fs.Squared(l2=0.1)), clients, rounds=i + 1) for i in range(8)}
    rows = [
        *(summarise(run, label) for label, run in runs.items()),
        {"algorithm": "x", "status": "error", "message": "y"},
    ]
    figure = convergence({label: run.history for label, run in runs.items()})
    about = pages.About("Eight", "90 rows", "fedsolve compare x.toml", figure, story=["It was so."])
    return pages.comparison_page(about, rows, runs, tables.RESULTS, "Said.")


def asked(page: str, axe: str, folder: Path, width: int) -> dict[str, list[list[str]]]:
    assert CHROMIUM is not None
    file = folder / "page.html"
    inner = page.replace("</body>", ASK % axe + "</body>")
    file.write_text(FRAME % (width, html.escape(inner)), encoding="utf-8")
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000")
    command = [CHROMIUM, *options, f"--user-data-dir={folder / 'profile'}", "--window-size=1400,2000", "--dump-dom"]
    found = subprocess.run([*command, file.as_uri()], capture_output=True, text=True, timeout=120, check=False)
    said = re.search(r'<pre id="found">(.*?)</pre>', found.stdout, re.DOTALL)
    assert said is not None, found.stderr[-2000:]
    result = json.loads(html.unescape(said[1]))
    assert result["width"] == width
    return result  # type: ignore[no-any-return]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("which", ["run_page", "comparison"])
def test_axe_finds_nothing_serious(
    request: pytest.FixtureRequest, which: str, width: int, axe: str, tmp_path: Path
) -> None:
    found = asked(request.getfixturevalue(which), axe, tmp_path, width)
    assert [one for one in found["violations"] if one[0] in GRAVE] == []
    assert found["cut"] == []  # what is wider than the page scrolls by itself


def test_it_would_find_something(axe: str, tmp_path: Path) -> None:
    """A page without a language, with a picture without a text and a table that leaves the page."""
    wide = '<div style="width: 3000px">wide</div>'
    page = f'<!DOCTYPE html><html><head><title>t</title></head><body><img src="data:,">{wide}</body></html>'
    found = asked(page, axe, tmp_path, 390)
    assert {"html-has-lang", "image-alt"} <= {one[1] for one in found["violations"]}
    assert found["cut"]
