"""Messages that an honest server of this run would not send: of an earlier attempt, of another length than declared,
with arguments that a step does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.errors import ClientError
from fedsolve.numerics.structured_arrays import LowRank, Quantised, Symmetric, TopK
from fedsolve.sites import Site, SiteTransport
from fedsolve.wire.encoding import Part
from fedsolve.wire.messages import Failure, Reply, Request, decode_answer
from tests.sites.curious import Direct, joined
from tests.sites.hospitals import LOSS, PREPROCESS, hospitals, terms

NEWTON = fs.Newton(LOSS)


class Recording(Direct):
    """Keeps the last request to each site."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        super().__init__(files)
        self.last: dict[str, bytes] = {}

    def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        self.last |= requests
        yield from super().ask(requests, deadline)


class Forging(Direct):
    """Changes the requests of the algorithm on their way to one site."""

    def __init__(self, files: Mapping[str, Path], forge: Callable[[Request], bytes]) -> None:
        super().__init__(files)
        self.forge = forge

    def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
        site = self.sites["arden"]
        assert isinstance(site, Site)
        request = Request.decode(requests["arden"], site.runtime.types)
        if request.routes.value[0][0] == "algorithm":
            requests = {**requests, "arden": self.forge(request)}
        yield from super().ask(requests, deadline)


def sent(folder: Path) -> int:
    return (folder / "store-arden" / "audit.jsonl").read_text().count('"event": "sent"')


def test_a_server_of_an_earlier_attempt_is_not_answered(tmp_path: Path) -> None:
    """The server was resumed while its predecessor, whose messages still come, had not ended."""
    found, asked, saved = hospitals(tmp_path), terms(), tmp_path / "run.ckpt"
    first = Recording(found.files)
    fs.run(NEWTON, SiteTransport(first, asked), preprocess=PREPROCESS, checkpoint=saved, rounds=2)
    second = Recording(found.files)
    with fs.Session(SiteTransport(second, asked)) as session:
        fs.run(NEWTON, session, preprocess=PREPROCESS, checkpoint=saved, resume=True, rounds=3)
        site, before = second.sites["arden"], sent(tmp_path)
        assert isinstance(site, Site)
        answer = decode_answer(site.answer(first.last["arden"]), site.runtime.types)
        assert isinstance(answer, Failure)
        assert "attempt 1 of the server asks, but attempt 2 has taken over" in answer.text
        assert sent(tmp_path) == before
        again = decode_answer(site.answer(second.last["arden"]), site.runtime.types)
        assert isinstance(again, Reply)  # the server that has taken over is


def test_an_answer_to_an_earlier_attempt_leaves_no_trace(tmp_path: Path) -> None:
    """What a site that was slow sends to the server of attempt 1 arrives at that of attempt 2."""
    found, asked, saved = hospitals(tmp_path), terms(), tmp_path / "run.ckpt"
    whole = fs.run(NEWTON, SiteTransport(Direct(found.files), terms()), preprocess=PREPROCESS)

    class Late(Direct):
        """Before each answer comes the one that this site gave last, also to the server before."""

        stale: dict[str, bytes] = {}  # noqa: RUF012

        def ask(self, requests: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, bytes]]:
            before = dict(self.stale)
            for name, data in super().ask(requests, deadline):
                if name in before:
                    yield name, before[name]
                type(self).stale[name] = data
                yield name, data

    for resume, rounds in ((False, 2), (True, 100)):
        transport = SiteTransport(Late(found.files), asked)
        run = fs.run(NEWTON, transport, preprocess=PREPROCESS, checkpoint=saved, resume=resume, rounds=rounds)
    assert np.array_equal(run.model.w, whole.model.w)


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (lambda data: data + b"\x00" * 64, "declares"),
        (lambda data: data[:-8], "declares"),
        (lambda data: data * 2, "declares"),
        (lambda data: b"\x00" * 4 + data[4:], "not a fedsolve message"),
    ],
    ids=["larger than declared", "smaller than declared", "twice", "other magic"],
)
def test_a_request_of_another_length_than_it_declares(
    forge: Callable[[bytes], bytes], said: str, tmp_path: Path
) -> None:
    found = hospitals(tmp_path)
    carrier = Forging(found.files, lambda request: forge(request.encode()))
    with pytest.raises(ClientError, match=said) as error:
        fs.run(NEWTON, SiteTransport(carrier, terms()), preprocess=PREPROCESS)
    assert "arden" in str(error.value)


@pytest.mark.parametrize("name", ["sample_weight", "weights", "mask", "rows", "client"])
def test_weights_or_masks_of_the_servers_own(name: str, tmp_path: Path) -> None:
    """A weight of 1 for one row and 0 for all others would make any sum that row. No step takes them."""
    found = hospitals(tmp_path)
    only = np.zeros(60)
    only[7] = 1.0

    def forge(request: Request) -> bytes:
        arguments = tuple(Part({**part.value, name: only}) for part in request.arguments)
        return Request(request.preamble, request.routes, arguments).encode()

    with pytest.raises(ClientError, match=name) as error:
        fs.run(NEWTON, SiteTransport(Forging(found.files, forge), terms()), preprocess=PREPROCESS)
    assert "arden" in str(error.value)


def test_a_memory_of_the_servers_own(tmp_path: Path) -> None:
    """Nor can it write what a client remembers: a step that is none of the run's is unknown."""
    found = hospitals(tmp_path)

    def forge(request: Request) -> bytes:
        routes = [["algorithm", "memory", *route[2:]] for route in request.routes.value]
        return Request(request.preamble, Part.plain(routes), request.arguments).encode()

    with pytest.raises(ClientError, match="memory"):
        fs.run(NEWTON, SiteTransport(Forging(found.files, forge), terms()), preprocess=PREPROCESS)


@pytest.mark.parametrize("form", ["TopK", "LowRank", "Quantised", "Symmetric"])
def test_106_a_point_in_a_compressed_form_is_no_way_around_the_policy(form: str, tmp_path: Path) -> None:
    """Steps take arrays; what stands for an array in fewer bytes they do not declare."""
    far = np.full(4, 1e6)
    forms = {
        "TopK": TopK.of(far, 4),
        "LowRank": LowRank(np.full((4, 1), 1e3), np.ones(1)),
        "Quantised": Quantised.of(far),
        "Symmetric": Symmetric(1e6 * np.eye(4)),
    }
    with joined(hospitals(tmp_path), NEWTON) as fed, pytest.raises(ClientError, match="not what it declares"):
        fed.gather(NEWTON.evaluate, w=forms[form])


def test_a_point_of_another_shape_is_no_way_around_the_policy(tmp_path: Path) -> None:
    """Points are known by their shape; what has another one is not computed with."""
    found = hospitals(tmp_path)
    with joined(found, NEWTON) as fed:
        for odd in (np.full((1, fed.features + 1), 1e6), np.full(fed.features + 2, 1e6), np.full((), 1e6)):
            with pytest.raises(ClientError):
                fed.gather(NEWTON.evaluate, w=odd)
