"""A site that refuses the terms of a run: with a quorum the others go on without it, and the refusal is told."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ClientMismatch, ClientRefused, QuorumNotReached
from fedsolve.report import summarise
from fedsolve.report.fitted import what_was_fitted, who_took_part
from fedsolve.report.result_words import result_sentences
from fedsolve.sites import SiteTransport, Terms
from tests.sites.curious import Direct
from tests.sites.hospitals import LOSS, NAMES, PREPROCESS, Hospitals, hospitals, site_text, terms

NEWTON = fs.Newton(LOSS)
HALF = fs.Participation(quorum=0.5)
REFUSES = 'algorithms = ["FedNewtonCG"]'
SAID = "the run uses Newton, and this site answers only FedNewtonCG (rule 'algorithms' of this site's policy)"


def with_policies(folder: Path, policies: Mapping[str, str]) -> Hospitals:
    found = hospitals(folder)
    for name, policy in policies.items():
        found.files[name].write_text(site_text(name, policy))
    return found


def run(found: Hospitals, participation: fs.Participation, algorithm: Any = NEWTON, **more: Any) -> fs.Run:
    transport = SiteTransport(Direct(found.files), more.pop("terms", terms()))
    return fs.run(algorithm, transport, preprocess=PREPROCESS, participation=participation, **more)


@pytest.mark.parametrize("algorithm", [NEWTON, fs.SHED(LOSS), fs.FFGB(fs.Logistic(), fs.Trees())], ids=str)
def test_the_others_go_on_and_the_refusal_is_told(algorithm: Any, tmp_path: Path) -> None:
    found = with_policies(tmp_path, {"bryn": REFUSES})
    there = run(found, HALF, algorithm, rounds=10)
    others = [client for client in found.clients if client.name != "bryn"]
    here = fs.run(algorithm, others, preprocess=PREPROCESS, participation=HALF, rounds=10)
    rows = others[0].X
    assert np.array_equal(there.model.predict(rows), here.model.predict(rows))
    assert [row.gradient_norm for row in there.history] == [row.gradient_norm for row in here.history]
    assert there.status == here.status
    for row in there.history:
        (missing,) = row.missing
        assert missing[0] == "bryn"
        assert "'algorithms' of this site's policy" in missing[1]
    assert "bryn" in there.message
    assert "(rule 'algorithms' of this site's policy)" in there.message


@pytest.mark.parametrize("quorum", [0.0, 1.0])
def test_without_a_quorum_the_run_ends_naming_site_and_rule(quorum: float, tmp_path: Path) -> None:
    found = with_policies(tmp_path, {"bryn": REFUSES})
    with pytest.raises(ClientRefused) as said:
        run(found, fs.Participation(quorum=quorum))
    assert "bryn" in str(said.value)
    assert SAID in str(said.value)


def test_too_few_are_left(tmp_path: Path) -> None:
    """Nobody knows how many rows a site has that refuses, so each counts the same: three of four are 75 %."""
    found = with_policies(tmp_path, {"bryn": REFUSES})
    with pytest.raises(QuorumNotReached) as said:
        run(found, fs.Participation(quorum=0.8))
    assert "3 of 4 clients answered" in str(said.value)
    assert SAID in str(said.value)
    assert run(found, fs.Participation(quorum=0.75)).converged


def test_all_refuse_alike(tmp_path: Path) -> None:
    found = with_policies(tmp_path, dict.fromkeys(NAMES, REFUSES))
    with pytest.raises(ClientRefused, match=r"answers only FedNewtonCG.*All 4 clients failed alike"):
        run(found, HALF)


def test_all_refuse_and_some_for_other_reasons(tmp_path: Path) -> None:
    """One because of its rows, when it joins; the others because of the terms."""
    found = with_policies(tmp_path, {**dict.fromkeys(NAMES, REFUSES), "dale": "min_rows = 1000"})
    with pytest.raises(QuorumNotReached) as said:
        run(found, HALF)
    assert "'algorithms'" in str(said.value)
    assert "'min_rows'" in str(said.value)
    assert all(name in str(said.value) for name in NAMES)


def test_another_version_ends_the_run_also_with_a_quorum(tmp_path: Path) -> None:
    """That is a mistake in the installation, and no decision of the site's."""
    found = hospitals(tmp_path)

    class Older(Direct):
        def begin(self, terms: str) -> None:
            super().begin(terms)
            asked = Terms.from_json(terms)
            older = Terms(asked.run, asked.protocols, target=asked.target, version="0.0.1")
            one = Direct({"arden": self.files["arden"]})
            one.begin(older.to_json())
            self.sites["arden"] = one.sites["arden"]

    transport = SiteTransport(Older(found.files), terms())
    with pytest.raises(ClientMismatch, match=r"arden.*of fedsolve 0\.0\.1"):
        fs.run(NEWTON, transport, preprocess=PREPROCESS, participation=HALF)


def test_a_site_that_refused_stays_out_when_the_run_is_resumed(tmp_path: Path) -> None:
    """Also if it has changed its mind: it has no part in what the columns were scaled by."""
    found, asked, saved = with_policies(tmp_path, {"bryn": REFUSES}), terms(), tmp_path / "run.ckpt"
    whole = run(found, HALF)
    run(found, HALF, terms=asked, checkpoint=saved, rounds=2)
    found.files["bryn"].write_text(site_text("bryn"))
    again = run(found, HALF, terms=asked, checkpoint=saved, resume=True)
    assert np.array_equal(again.model.w, whole.model.w)
    assert all("bryn" in dict(row.missing) for row in again.history)


def test_a_site_that_refuses_a_later_question_is_missing_from_it(tmp_path: Path) -> None:
    found = with_policies(tmp_path, {"bryn": "requests = 7"})
    there = run(found, HALF)
    assert there.converged
    reasons = [dict(row.missing).get("bryn", "") for row in there.history]
    assert not reasons[0]
    assert "(rule 'requests' of this site's policy)" in reasons[-1]
    replay = fs.Replay(cohorts=there.ledger.cohorts(), quorum=0.5)
    rounds = there.history[-1].round  # as many: in a replay nobody is lost for good, so it would wait for bryn
    here = fs.run(NEWTON, found.clients, preprocess=PREPROCESS, participation=replay, rounds=rounds, tolerance=0.0)
    assert np.array_equal(there.model.w, here.model.w)


class Restarted(Direct):
    """One site starts again during the run, with another policy."""

    def __init__(self, files: Mapping[str, Path], policy: str) -> None:
        super().__init__(files)
        self.policy, self.count, self.text = policy, 0, ""

    def begin(self, terms: str) -> None:
        self.text = terms
        super().begin(terms)

    def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        self.count += 1
        if self.count == 8:
            self.files["bryn"].write_text(site_text("bryn", self.policy))
            again = Direct({"bryn": self.files["bryn"]})
            again.begin(self.text)
            self.sites |= again.sites
        yield from super().ask(requests, deadline)


@pytest.mark.parametrize(("policy", "rule"), [(REFUSES, "algorithms"), ("largest_loss = 0.5", "largest_loss")])
def test_a_site_that_starts_again_with_a_stricter_policy(policy: str, rule: str, tmp_path: Path) -> None:
    """The new policy holds from then on: for the terms as a whole, and for each call."""
    found = hospitals(tmp_path)
    there = fs.run(
        NEWTON, SiteTransport(Restarted(found.files, policy), terms()), participation=HALF, preprocess=PREPROCESS
    )
    assert there.converged
    first, *_, last = [dict(row.missing).get("bryn", "") for row in there.history]
    assert not first
    assert f"(rule '{rule}' of this site's policy)" in last
    found.files["bryn"].write_text(site_text("bryn"))
    with pytest.raises(ClientRefused, match=f"bryn.*rule '{rule}'"):
        fs.run(NEWTON, SiteTransport(Restarted(found.files, policy), terms()), preprocess=PREPROCESS)


def test_a_site_that_starts_again_with_a_laxer_policy_goes_on(tmp_path: Path) -> None:
    """What it has been asked so far it would have answered too."""
    found = hospitals(tmp_path)
    there = fs.run(NEWTON, SiteTransport(Restarted(found.files, "min_rows = 2"), terms()), preprocess=PREPROCESS)
    assert np.array_equal(there.model.w, fs.run(NEWTON, found.clients, preprocess=PREPROCESS).model.w)


def test_one_that_never_joined_is_told_from_one_that_was_lost(tmp_path: Path) -> None:
    found = with_policies(tmp_path, {"bryn": REFUSES, "corrie": "requests = 7"})
    there = run(found, HALF)
    assert there.converged
    never, lost = (dict(there.history[-1].missing)[name] for name in ("bryn", "corrie"))
    assert never == f"took no part: {SAID}"
    assert lost.startswith("lost in round")
    assert "the objective of arden, dale; lost: corrie (since round" in there.message
    assert there.message.endswith(f"; took no part: bryn ({SAID})")
    page = re.sub(
        "<[^>]*>", "", html.unescape(who_took_part(there, summarise(there, "Newton", found.clients)["clients"]))
    )
    assert "3 sites took part; 1 of them was missing from some round." in page
    assert f"bryn took no part: {SAID}." in page
    clients = summarise(there, "Newton", found.clients)["clients"]
    kept = sum(one["samples"] for one in clients if one["name"] != "corrie")
    fitted = html.unescape(what_was_fitted(there, None, 260, kept))
    assert f"It was fitted to {kept} of 260 rows, without those of corrie." in fitted
    (said,) = result_sentences(there, 210, None)
    assert said.endswith("corrie was lost during the run, and bryn took no part.")
