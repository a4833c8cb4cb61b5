"""The ledger against a count by hand and against the bytes themselves."""

import numpy as np
import pytest

import fedsolve as fs
from fedsolve.federation.calls import Gather, Mean, PerClient, Sum
from fedsolve.federation.ledger import ENVELOPE, Total
from tests.core.federations import MEASURE, STEPS, TRANSPORTS, Recorder, clients, join


@pytest.fixture(params=TRANSPORTS)
def recorded(request):
    """A federation whose messages are written down."""
    transport = Recorder(TRANSPORTS[request.param](clients()))
    yield join(transport), transport
    transport.close()


def play(fed) -> None:
    """Some of everything: shared and individual arguments, several calls, measuring along and by itself."""
    w = np.zeros(2)
    fed.mean(STEPS.gradient, w=w)
    fed.attach((Mean(MEASURE.value_and_gradient, w=w),), lambda results: None)
    fed.exchange(Mean(STEPS.everything, w=w), Gather(STEPS.name))
    fed.begin_round(2)
    fed.gather(STEPS.largest, w=PerClient({f"c{i}": w + i for i in range(3)}), k=PerClient({"c0": 0, "c1": 1, "c2": 2}))
    fed.measure(Mean(MEASURE.value_and_gradient, w=w))


# ── by hand ──

PREAMBLE = 64
SIZES = 16  # of a part: header length, zero, body length


def padded(size: int) -> int:
    return -(-size // 8) * 8


# Headers, in bytes of msgpack: a small number or the head of a short list takes 1, a short string 1 + its length,
# a float 9.
ROUTES = (
    1 + 1 + 1 + 1 + (1 + 9) + (1 + 8) + (1 + 9) + (1 + 7)
)  # [6, [["algorithm", "gradient", "algorithm", "mean   "]]]
ARGUMENTS = 1 + 1 + (1 + 1 + 1) + 4  # [2, ["w"], [3, 0, 2]]
ENVELOPE_UP = 1 + 1 + 1 + 9 + 1 + 1 + (1 + 9) + 1  # [6, [seconds, [{"gradients": n}]]]
VECTOR = 4  # [3, 0, 2]


def test_an_exchange_counted_by_hand(recorded):
    fed, _ = recorded
    fed.mean(STEPS.gradient, w=np.zeros(2))
    record = fed.ledger.records[-1]
    down = [PREAMBLE + SIZES + padded(ROUTES), SIZES + padded(ARGUMENTS) + 2 * 8]
    up = [PREAMBLE + SIZES + padded(ENVELOPE_UP), SIZES + padded(VECTOR) + 2 * 8]
    np.testing.assert_array_equal(record.spread(record.bytes_down), np.array([down] * 3).T)
    np.testing.assert_array_equal(record.bytes_up, np.array([up] * 3).T)
    total = fed.ledger.total()
    assert total == Total(3 * sum(up), 3 * sum(down), 3 * 2, 3 * 2, 1, {"gradients": 2 + 3 + 5})


def test_scalars_counted_by_hand(recorded):
    fed, _ = recorded
    play(fed)
    total = fed.ledger.total()
    # Down: w to 3 clients, three times. Up: g; then f, g and a triangle of 3; then k values and k indices, k = 0, 1, 2.
    assert total.scalars_down == 3 * 2 * 3
    assert total.scalars_up == 3 * 2 + 3 * (1 + 2 + 3) + 2 * (0 + 1 + 2)
    measured = fed.ledger.total("measure")
    assert measured.scalars_down == 2 * 3 * 2
    assert measured.scalars_up == 2 * 3 * (1 + 2)


def test_computations_counted_by_hand(recorded):
    fed, _ = recorded
    play(fed)
    samples = 2 + 3 + 5
    assert fed.ledger.total().counts == {"gradients": 3 * samples, "losses": samples, "hessians": 3}
    assert fed.ledger.total("measure").counts == {"gradients": 2 * samples, "losses": 2 * samples}
    assert fed.ledger.total("setup").counts == {}


# ── against the bytes ──


def test_every_message_has_the_length_the_ledger_says(recorded):
    fed, transport = recorded
    play(fed)
    down, up = list(transport.down), list(transport.up)
    for record in fed.ledger.records:
        sides = (
            (down, record.asked, record.spread(record.bytes_down).sum(axis=0)),
            (up, record.answered, record.bytes_up.sum(axis=0)),
        )
        for messages, names, sizes in sides:
            here, messages[:] = messages[: len(names)], messages[len(names) :]
            # Answers may arrive in any order.
            assert {name: len(data) for name, data in here} == dict(zip(names, sizes.tolist(), strict=True))
    assert down == up == []


def test_all_bytes_are_in_the_total(recorded):
    fed, transport = recorded
    play(fed)
    total = fed.ledger.total(None)
    assert total.bytes_down == sum(len(data) for _, data in transport.down)
    assert total.bytes_up == sum(len(data) for _, data in transport.up)
    assert total.exchanges == len(fed.ledger.records) == 5


# ── sums ──


def test_purposes_are_kept_apart_and_add_up(recorded):
    fed, _ = recorded
    play(fed)
    kinds = [fed.ledger.total(purpose) for purpose in ("algorithm", "measure", "setup")]
    whole = fed.ledger.total(None)
    for name in ("bytes_up", "bytes_down", "scalars_up", "scalars_down"):
        assert sum(getattr(one, name) for one in kinds) == getattr(whole, name)
    assert all(one.bytes_up > 0 and one.bytes_down > 0 for one in kinds)


def test_measuring_does_not_change_what_the_algorithm_sent():
    totals = []
    for measured in (False, True):
        fed = join(TRANSPORTS["in process"](clients()))
        if measured:
            fed.attach((Mean(MEASURE.value_and_gradient, w=np.zeros(2)),), lambda results: None)
        fed.mean(STEPS.gradient, w=np.zeros(2))
        entries = [one for one in fed.ledger.entries() if one.purpose == "algorithm" and one.call != ENVELOPE]
        totals.append((entries, fed.ledger.total().counts))
    assert totals[0] == totals[1]


def test_measured_values_reach_who_asked():
    fed = join(TRANSPORTS["in process"](clients()))
    received = []
    w = np.ones(2)
    fed.attach((Mean(MEASURE.value_and_gradient, w=w),), received.extend)
    g = fed.mean(STEPS.gradient, w=w)
    np.testing.assert_array_equal(received[0][1], g)
    assert not fed.detach()  # it travelled once
    assert len(received) == 1


@pytest.mark.parametrize("purpose", [None, "algorithm", "measure", "setup"])
def test_clients_add_up_to_the_total(recorded, purpose):
    fed, _ = recorded
    play(fed)
    total, parts = fed.ledger.total(purpose), fed.ledger.by_client(purpose)
    assert list(parts) == ["c0", "c1", "c2"]
    for name in ("bytes_up", "bytes_down", "scalars_up", "scalars_down"):
        assert sum(getattr(part, name) for part in parts.values()) == getattr(total, name)


def test_calls_add_up_to_the_total(recorded):
    fed, _ = recorded
    play(fed)
    total, parts = fed.ledger.total(None), fed.ledger.by_call()
    for name in ("bytes_up", "bytes_down", "scalars_up", "scalars_down"):
        assert sum(getattr(part, name) for part in parts.values()) == getattr(total, name)
    assert parts["algorithm.name", "algorithm"].scalars_up == 0
    assert ("measure.value_and_gradient", "measure") in parts
    assert (ENVELOPE, "setup") in parts


def test_rounds_add_up_to_the_total(recorded):
    fed, _ = recorded
    play(fed)
    total = fed.ledger.total()
    parts = [fed.ledger.total(rounds=[round]) for round in (0, 1, 2)]
    assert sum(part.bytes_up for part in parts) == total.bytes_up
    assert [part.exchanges for part in parts] == [0, 2, 1]


def test_rows_are_the_entries(recorded):
    fed, _ = recorded
    play(fed)
    rows = fed.ledger.to_rows()
    assert sum(row["bytes"] for row in rows) == fed.ledger.total(None).bytes_up + fed.ledger.total(None).bytes_down
    assert {row["direction"] for row in rows} == {"up", "down"}


def test_both_transports_keep_the_same_ledger():
    ledgers = []
    for make in TRANSPORTS.values():
        transport = make(clients())
        fed = join(transport)
        play(fed)
        transport.close()
        ledgers.append(fed.ledger)
    assert ledgers[0] == ledgers[1]
    ledgers[0].records[1].bytes_up = ledgers[0].records[1].bytes_up + 1
    assert ledgers[0] != ledgers[1]


def test_both_transports_give_the_same_bits():
    results = []
    for make in TRANSPORTS.values():
        transport = make(clients())
        fed = join(transport)
        w = np.linspace(-1, 1, 2)
        value, g, H = fed.mean(STEPS.everything, w=w)
        draws = fed.gather(STEPS.draw)
        results.append(
            (
                value,
                g.tobytes(),
                H.packed().tobytes(),
                H.full().tobytes(),
                draws,
                fed.sum(STEPS.gradient, w=w).tobytes(),
            )
        )
        transport.close()
    assert results[0] == results[1]


def test_individual_arguments_have_their_own_sizes(recorded):
    fed, _ = recorded
    fed.gather(STEPS.numbers, size=PerClient({"c0": 1, "c1": 1000, "c2": 10**6}))
    record = fed.ledger.records[-1]
    # Sizes of whole numbers in msgpack: 1, 3 and 5 bytes beside [2, ["size"], …] = 8 bytes.
    np.testing.assert_array_equal(record.bytes_down[1], [16 + 16, 16 + 16, 16 + 16])
    np.testing.assert_array_equal(record.scalars_up[1], [1, 1000, 10**6])
    np.testing.assert_array_equal(record.bytes_up[1] - record.scalars_up[1] * 8, [24, 24, 24])


def test_a_call_that_carries_nothing_costs_only_its_names(recorded):
    fed, _ = recorded
    fed.exchange(Gather(STEPS.name), Sum(STEPS.numbers, size=0))
    record = fed.ledger.records[-1]
    assert record.scalars_down.sum() == record.scalars_up.sum() == 0
    assert (record.spread(record.bytes_down) > 0).all()


def test_what_is_sent_again_counts_again():
    """Every request that left the server and every reply that reached it, by a hand count of encoded lengths."""
    parties = [fs.Client(f"client-{j}", np.eye(3) + j, np.arange(3.0)) for j in range(4)]
    algorithm = fs.FedAvg(fs.Squared(l2=1.0), fs.GradientSteps(1, step_size=0.1))
    policy = fs.Participation(dropout=0.5, retries=50)
    lossy = fs.run(algorithm, parties, rounds=5, participation=policy, measure=0)
    calm = fs.run(algorithm, parties, rounds=5, measure=0)
    tries = sum(int(record.tries.sum()) for record in lossy.ledger.records if record.purposes == ("algorithm",))
    assert tries > 5 * 4 * 1.5
    one = calm.ledger.total("algorithm").bytes_down // (5 * 4)
    assert lossy.ledger.total("algorithm").bytes_down == one * tries
    assert lossy.ledger.total("algorithm").bytes_up == calm.ledger.total("algorithm").bytes_up
