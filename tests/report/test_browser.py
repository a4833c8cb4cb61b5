"""The report in a browser: axe-core finds no fault of accessibility, and no page is wider than a phone.

It needs Chromium and axe-core (AXE_CORE=…/axe.min.js names its file; without it, `npm pack axe-core` is tried). Where
either is missing, or the browser does not start, the tests are skipped and say so. Nothing waits longer than two
minutes, and a browser that does not come to an end is ended with all its processes.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.report import evaluation as held_out
from fedsolve.report import html_parts, summarise, tables
from fedsolve.report import run_page as pages
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
  const heads = [...document.querySelectorAll("tbody th")].map(one => {
    const lines = document.createRange();
    lines.selectNodeContents(one);
    return [lines.getClientRects().length, one.getBoundingClientRect().width];
  });
  document.querySelectorAll("details").forEach(one => one.open = true);
  const found = await axe.run(document, {resultTypes: ["violations"]});
  parent.postMessage(JSON.stringify({cut, heads, width: innerWidth, violations: found.violations.map(
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

OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=20000",
    "--window-size=1400,2000",
    "--dump-dom",
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")


def output(command: list[str], folder: Path, seconds: float) -> tuple[str, str]:
    """What a command writes. If it takes longer, it and all that it has started are killed."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            return process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def dom(page: str, folder: Path, seconds: float = 120) -> tuple[str, str]:
    """The page after its scripts have run, and what the browser complained of."""
    assert CHROMIUM is not None
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    command = [CHROMIUM, *OPTIONS, f"--user-data-dir={folder / 'profile'}", file.as_uri()]
    return output(command, folder, seconds)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where the browser does not start: a command that only says how to install one, a machine without what it
    needs."""
    try:
        found, complaint = dom("<p>here</p>", tmp_path_factory.mktemp("browser"), 60)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"{CHROMIUM} does not start: {error}")
    if "<p>here</p>" not in found:
        pytest.skip(f"{CHROMIUM} does not start: {complaint.strip()[-300:]}")


@pytest.fixture(scope="module")
def axe(browser: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core."""
    given = os.environ.get("AXE_CORE")
    if given is not None:
        return Path(given).read_text(encoding="utf-8")
    folder = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm here to fetch axe-core with, and AXE_CORE names no file")
    try:
        _, complaint = output([npm, "pack", "axe-core"], folder, 60)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"npm could not fetch axe-core: {error}")
    fetched = list(folder.glob("axe-core-*.tgz"))
    if not fetched:
        pytest.skip(f"npm could not fetch axe-core: {complaint.strip()[-300:]}")
    with tarfile.open(fetched[0]) as archive:
        source = archive.extractfile("package/axe.min.js")
        assert source is not None
        return source.read().decode()


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


@pytest.fixture(scope="module")
def odd_page() -> str:
    """Fifty sites, tables that are folded, coefficients with intervals, and names that are markup, long or strange."""
    rng = np.random.default_rng(0)
    names = ["<img src=x onerror=alert(1)>", 90 * "x", "東京大学病院", *(f"site-{place}" for place in range(47))]
    columns = [90 * "y", "<b>age</b>", "a column with a name that is longer than a phone is wide, as some are"]
    clients = []
    for name in names:
        X = rng.standard_normal((30, 3))
        clients.append(fs.Client(name, X, (X[:, 0] + rng.standard_normal(30) > 0) * 1.0, feature_names=columns))
    held = fs.data.hold_out(clients, 0.3)
    loss = fs.Logistic(intercept="free")
    slow = fs.Participation(latency={name: 1e12 if name == names[1] else 1e-9 for name in names}, deadline=1.0)
    run = fs.run(
        fs.Newton(loss), held, evaluation=fs.Evaluation(loss), participation=slow, rounds=8, min_rows=0, seed=0
    )
    assert run.evaluation is not None
    summary = fs.run(fs.Newton(loss), clients, min_rows=0).summary()
    about = pages.About(
        names[0],
        names[1],
        "fedsolve run x.toml",
        convergence({names[1]: run.history}, title=names[1]),
        held_out=held_out.figure(run.evaluation),
        inferred=summary,
        forest=summary.forest_plot(),
        outcome=["a", "b"],
    )
    return pages.run_page(about, run, summarise(run, "Newton", clients), fs.federation_gain(run))


def asked(page: str, axe: str, folder: Path, width: int) -> dict[str, Any]:
    inner = page.replace("</body>", ASK % axe + "</body>")
    found, complaint = dom(FRAME % (width, html.escape(inner)), folder)
    said = re.search(r'<pre id="found">(.*?)</pre>', found, re.DOTALL)
    assert said is not None, complaint[-2000:]
    result: dict[str, Any] = json.loads(html.unescape(said[1]))
    assert result["width"] == width
    return result


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("which", ["run_page", "comparison", "odd_page"])
def test_axe_finds_nothing_serious(
    request: pytest.FixtureRequest, which: str, width: int, axe: str, tmp_path: Path
) -> None:
    found = asked(request.getfixturevalue(which), axe, tmp_path, width)
    assert [one for one in found["violations"] if one[0] in GRAVE] == []
    assert found["cut"] == []  # what is wider than the page scrolls by itself


def test_colours_of_the_night_have_contrast_too(run_page: str, axe: str, tmp_path: Path) -> None:
    dark = run_page.replace("(prefers-color-scheme: dark)", "all")
    assert dark != run_page
    found = asked(dark, axe, tmp_path, 390)
    assert [one for one in found["violations"] if one[0] in GRAVE] == []


def test_names_are_not_broken_where_there_is_room(axe: str, tmp_path: Path) -> None:
    """On a phone: a word of a first column stays whole, and one that is longer than half the page does not."""
    headings = [("site", False), ("rows", True), ("a reason", False)]
    rows = [["switzerland", "123", 200 * "reason "], [90 * "x", "1", "never"]]
    found = asked(html_parts.page("t", html_parts.table(headings, rows)), axe, tmp_path, 390)
    (whole, _), (broken, wide) = found["heads"]
    assert whole == 1
    assert broken > 1
    assert wide <= 195


def test_it_would_find_something(axe: str, tmp_path: Path) -> None:
    """A page without a language, with a picture without a text and a table that leaves the page."""
    wide = '<div style="width: 3000px">wide</div>'
    page = f'<!DOCTYPE html><html><head><title>t</title></head><body><img src="data:,">{wide}</body></html>'
    found = asked(page, axe, tmp_path, 390)
    assert {"html-has-lang", "image-alt"} <= {one[1] for one in found["violations"]}
    assert found["cut"]
