"""SHED, section 6.1: what is said of the data, against the data sets that are available and against itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp

from fedsolve.data import load
from fedsolve.federation.client import Client
from fedsolve.reproduce.claims import Claims
from fedsolve.reproduce.harness import Seeds, experiment
from fedsolve.reproduce.result import Column, Result
from fedsolve.reproduce.shed.problems import AGENTS, PER_AGENT, distinct_columns, images, news, principal, songs, w8a
from fedsolve.typing import Array

ABOUT = 0.25  # by which “around” may be missed
SONGS, SONG_AGENTS, PER_SONG_AGENT = 300_000, 200, 800
FIRST_YEAR = 1922
# The configurations that section 6.1 describes of each data set, and those that it says were not considered.
DESCRIBED: dict[str, dict[str, bool]] = {
    "Million Song": {"iid": True, "non iid": True},
    "Online News": {},
    "FMNIST": {"iid": True, "non iid": True},
    "EMNIST": {"iid": True, "non iid": True},
    "w8a": {"iid": False, "non iid": True},
}


def near(found: float, said: float) -> bool:
    return abs(found - said) <= ABOUT * said


def _on_songs(claims: Claims) -> None:
    data = load("msd_songs")
    years, counts = np.unique(data.y, return_counts=True)
    said = f"the oldest of {len(data.y):,} songs of the subset is of {years[0]:.0f}"
    claims.add("songs: from 1922 on", bool(years[0] >= FIRST_YEAR), said)
    own = len(distinct_columns("msd_songs"))
    claims.add("songs: 90 features", data.X.shape[1] == 90, f"{data.X.shape[1]} features, {own} of them distinct")
    said = f"{SONGS:,}/{SONG_AGENTS} = {SONGS // SONG_AGENTS:,}"
    claims.add("songs: 300,000 among 200 agents are around 800 each", near(SONGS / SONG_AGENTS, PER_SONG_AGENT), said)
    sizes = [one.n_samples for one in songs(iid=False, seed=0).clients]
    said = f"{len(sizes)} years with {min(sizes)} to {max(sizes)} songs; {(counts < 10).sum()} years have fewer than 10"
    claims.add(
        "songs by year: very unequal agents, some very small", min(sizes) < 10 and max(sizes) > 20 * min(sizes), said
    )


def left_out(described: Mapping[str, Mapping[str, bool]]) -> list[str]:
    """Which data sets are said to lack a configuration."""
    return [f"{data}, {way}" for data, ways in described.items() for way, considered in ways.items() if not considered]


def outside(X: Array) -> int:
    """How many columns leave [0, 1]."""
    return int(np.sum((X.min(axis=0) < 0) | (X.max(axis=0) > 1)))


def _on_scaling(claims: Claims) -> None:
    """Of the clients of the figures, against the data as they are."""
    problems = (songs(iid=True, seed=0), songs(iid=False, seed=0), news(seed=0))
    stacked = [np.concatenate([np.column_stack([one.X, one.y]) for one in posed.clients]) for posed in problems]
    raw = {name: outside(load(name).X) for name in ("msd_songs", "news")}
    left = sum(map(outside, stacked))
    wide = min(float((one.max(axis=0) - one.min(axis=0)).max()) for one in stacked)
    said = f"{left} columns outside of [0, 1], of the raw songs {raw['msd_songs']}, of the raw news {raw['news']}"
    holds = left == 0 and min(raw.values()) > 0 and wide == 1
    claims.add("songs and news: clients' features and labels between 0 and 1, the raw ones not", holds, said)


def _on_images(claims: Claims) -> None:
    X, labels = principal("fashion_mnist", 300)
    posed, skewed = (images("fashion_mnist", 300, 1e-5, iid=iid, seed=0) for iid in (True, False))
    claims.add("Fashion-MNIST: 60,000 images", len(labels) == 60_000, f"{len(labels):,}")
    each = 2 * int((labels == 1).sum()) / AGENTS
    said = f"twice its {(labels == 1).sum():,} images of a class among {AGENTS} agents are {each:.0f} each"
    claims.add("images: 28 agents with a balanced set have around 400 each", near(each, PER_AGENT), said)
    widths = {one.X.shape[1] for one in posed.clients}
    shares = [float(np.mean(one.y)) for some in (posed, skewed) for one in some.clients]
    said = f"{len(posed.clients)} agents, n = {max(widths)}; {min(shares)} to {max(shares)} are of the target class"
    claims.add(
        "images: n = 300, half of each agent's images of the target class",
        widths == {300} and set(shares) == {0.5},
        said,
    )
    others = [_other_classes(X, labels, some.clients) for some in (posed, skewed)]
    said = f"{min(map(len, others[1]))} to {max(map(len, others[1]))} other classes an agent"
    claims.add(
        "images: unlike agents have the target class and one other", all(len(one) == 1 for one in others[1]), said
    )
    apart = max(max(one) - min(one) for one in others[0])
    mixed = apart <= 1 and all(len(one) == 9 for one in others[0])
    said = f"{min(map(len, others[0]))} other classes an agent, whose numbers differ by at most {apart}"
    claims.add("images: iid agents have all other classes, equally mixed, ± 1", mixed, said)
    energy = float(np.sum(X**2) / np.sum(load("fashion_mnist").X ** 2))
    claims.add("images: what 300 principal axes keep", energy > 0.95, f"{100 * energy:.1f} % of the squared length")


def _other_classes(X: Array, labels: Array, clients: list[Client]) -> list[list[int]]:
    """How many images each agent has of each class but the target, of those it has at all."""
    known = {row.tobytes(): label for row, label in zip(X, labels, strict=True)}
    found = []
    for one in clients:
        seen = [known[row.tobytes()] for row, y in zip(one.X, one.y, strict=True) if not y]
        found.append(np.unique(seen, return_counts=True)[1].tolist())
    return found


def _on_w8a(claims: Claims) -> None:
    data, posed = load("w8a"), w8a(seed=0)
    rare = float(np.mean(data.y))
    claims.add("w8a: about 50,000 samples, ± 5 %", abs(len(data.y) / 50_000 - 1) <= 0.05, f"{len(data.y):,}")
    claims.add("w8a: strongly unbalanced, less than a tenth in one class", rare < 0.1, f"{100 * rare:.1f} %")
    values = np.unique(data.X.data if sp.issparse(data.X) else data.X)
    said = f"its features are {', '.join(f'{one:g}' for one in values[:3])}"
    claims.add("w8a: already pre-processed, features 0 or 1", set(values) <= {0.0, 1.0}, said)
    sizes = [one.n_samples for one in posed.clients]
    alone = sum(len(np.unique(one.y)) == 1 for one in posed.clients)
    said = f"{len(sizes)} agents of {min(sizes)} to {max(sizes)}, {alone} with one class only"
    claims.add(
        "w8a: agents of 700 to 900, some with one class only",
        700 <= min(sizes) <= max(sizes) <= 900 and alone > 0,
        said,
    )


@experiment(
    "shed-setting",
    paper="SHED",
    place="section 6.1",
    title="SHED's data sets, as described and as they are",
    takes="30 s",
    seeds=1,
)
def setting(seeds: Seeds, quick: bool) -> Result:
    """Sizes, years and shares."""
    list(seeds.over(["data"]))
    claims = Claims(quick)
    missing = left_out(DESCRIBED)
    claim = "section 6.1: no data set is left without an iid or a non iid configuration"
    claims.add(claim, not missing, f"not considered: {'; '.join(missing) or 'none'}")
    _on_songs(claims)
    _on_scaling(claims)
    _on_images(claims)
    _on_w8a(claims)
    return Result(
        columns=(Column("statement"), Column("found")),
        rows=[(claim, str(verdict)) for claim, verdict in claims.found],
        claims=claims.found,
        notes=("“Around” is within 25 %. The songs are the Million Song Subset, the images Fashion-MNIST.",),
    )
