"""An informer cache: whatever comes, twice, late or not at all, the next list makes it true."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtimes.contract.errors import Unavailable
from runtimes.kubernetes.api.client import Expired, Listed
from runtimes.kubernetes.watch.informer_cache import Backoff, InformerCache


def thing(name: str, version: int) -> dict:
    return {"metadata": {"namespace": "a", "name": name, "resourceVersion": str(version)}}


def listed(version: int, **things: int) -> Listed:
    return Listed([thing(name, at) for name, at in things.items()], str(version))


def event(kind: str, name: str, version: int) -> dict:
    return {"type": kind, "object": thing(name, version)}


def cache(version: int = 10, **things: int) -> InformerCache:
    made = InformerCache()
    made.replace(listed(version, **(things or {"x": 5})))
    return made


def have(cache: InformerCache) -> dict[str, int]:
    return {name[2:]: int(each["metadata"]["resourceVersion"]) for name, each in cache.things.items()}


def test_before_the_first_list_nothing_is_known():
    made = InformerCache()
    assert not made.synced
    made.replace(listed(1))
    assert made.synced


def test_a_list_tells_what_is_new_changed_and_missing():
    made = cache(10, same=1, changed=2, missing=3)
    assert made.replace(listed(20, same=1, changed=12, new=13)) == {"a/changed", "a/missing", "a/new"}
    assert have(made) == {"same": 1, "changed": 12, "new": 13}


def test_a_list_that_takes_us_back_in_time_is_not_believed():
    made = cache(10, x=5)
    with pytest.raises(Unavailable, match="came after"):
        made.replace(listed(9))
    assert have(made) == {"x": 5}


def test_events_carry_a_list_on():
    made = cache(10, x=5)
    assert made.apply(event("ADDED", "y", 11)) == {"a/y"}
    assert made.apply(event("MODIFIED", "x", 12)) == {"a/x"}
    assert made.apply(event("DELETED", "y", 13)) == {"a/y"}
    assert (have(made), made.version) == ({"x": 12}, "13")


def test_a_bookmark_moves_the_version_only():
    made = cache(10, x=5)
    assert made.apply({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "99"}}}) == set()
    assert (have(made), made.version) == ({"x": 5}, "99")


@pytest.mark.parametrize("late", [event("MODIFIED", "x", 4), event("DELETED", "x", 4), event("ADDED", "gone", 3)])
def test_what_comes_late_changes_nothing(late):
    made = cache(10, x=5)
    assert made.apply(late) == set()
    assert (have(made), made.version) == ({"x": 5}, "10")


def test_what_comes_twice_changes_nothing():
    made = cache(10, x=5)
    made.apply(event("MODIFIED", "x", 11))
    assert made.apply(event("MODIFIED", "x", 11)) == set()


def test_an_error_in_the_stream_says_whether_to_list_anew():
    with pytest.raises(Expired):
        cache().apply({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})
    with pytest.raises(Unavailable):
        cache().apply({"type": "ERROR", "object": {"kind": "Status", "code": 500}})


@pytest.mark.parametrize("broken", [{}, {"type": "ADDED"}, {"type": "NEWS", "object": thing("x", 11)}, {"object": {}}])
def test_what_is_no_event_is_not_taken_for_one(broken):
    with pytest.raises(Unavailable):
        cache().apply(broken)


@given(st.randoms(use_true_random=False), st.integers(1, 60))
def test_after_any_faults_the_next_list_makes_it_true(dice, length):
    """A server's history is replayed with events lost, doubled and in another order; then one list comes."""
    truth: dict[str, int] = {}
    events = []
    for version in range(1, length + 1):
        name = dice.choice("xyz")
        kind = "ADDED" if name not in truth else dice.choice(["MODIFIED", "DELETED"])
        truth.pop(name) if kind == "DELETED" else truth.__setitem__(name, version)
        events.append(event(kind, name, version))
    made = InformerCache()
    made.replace(listed(0))
    heard = [each for each in events for _ in range(dice.choice([0, 1, 1, 2]))]
    for _ in range(dice.randint(0, 5)):
        i, j = dice.randrange(len(heard) or 1), dice.randrange(len(heard) or 1)
        if heard:
            heard[i], heard[j] = heard[j], heard[i]
    for each in heard:
        made.apply(each)
        assert all(at <= length for at in have(made).values())
    made.replace(listed(length, **truth))
    assert have(made) == truth


@given(st.randoms(use_true_random=False), st.integers(2, 60))
def test_a_list_beside_the_events_finds_what_they_failed_to_tell_and_nothing_else(dice, length):
    """One event at most is lost. The list is asked for and taken somewhere on the way, and compared at the end."""
    asked, taken = sorted(dice.sample(range(length + 1), 2))
    made, truth, then, names, lost = InformerCache(), {}, {}, [""], dice.randint(0, length)
    made.replace(listed(0))
    for version in range(1, length + 1):
        name = dice.choice("xyz")
        kind = "ADDED" if name not in truth else dice.choice(["MODIFIED", "DELETED"])
        truth.pop(name) if kind == "DELETED" else truth.__setitem__(name, version)
        if version == asked + 1:
            made.begin_check()
        if version != lost:
            made.apply(event(kind, name, version))
        if version == taken:
            then = dict(truth)
        names.append(name)
    found = made.find_missed(listed(taken, **then))
    if lost and names[lost] not in names[lost + 1 :]:  # what comes of the same one later makes it good
        assert found == ({f"a/{names[lost]}"} if lost <= taken else set())
    else:
        assert found == set()


def test_ten_thousand_are_compared_in_no_time():
    """Nothing else is heard meanwhile."""
    things = {f"t{number}": number + 1 for number in range(10_000)}
    made, same = cache(10_000, **things), listed(10_000, **things)
    made.begin_check()
    began = time.process_time()
    assert made.find_missed(same) == set() and time.process_time() - began < 1


def test_after_another_list_meanwhile_nothing_is_compared():
    made = cache(10, x=5)
    made.begin_check()
    made.replace(listed(20))
    assert made.find_missed(listed(15, x=5)) == set()


def test_without_faults_events_alone_are_the_truth():
    made, truth, dice = InformerCache(), {}, random.Random(7)
    made.replace(listed(0))
    for version in range(1, 300):
        name = dice.choice("uvwxyz")
        kind = "ADDED" if name not in truth else dice.choice(["MODIFIED", "DELETED"])
        truth.pop(name) if kind == "DELETED" else truth.__setitem__(name, version)
        made.apply(event(kind, name, version))
        assert have(made) == truth and made.version == str(version)


def test_pauses_grow_and_are_never_the_same_for_all():
    backoff = Backoff(random.Random(3))
    pauses = [backoff.failed() for _ in range(12)]
    assert all(pause <= min(0.5 * 2**n, 30) for n, pause in enumerate(pauses))
    assert max(pauses) > 5 and len(set(pauses)) == 12
    backoff.succeeded()
    assert backoff.failed() <= 0.5


def test_a_failure_that_lasted_long_was_a_pause_itself():
    backoff = Backoff(random.Random(3))
    for _ in range(10):
        backoff.failed()
    assert all(backoff.failed(took_s=40) <= 0.5 for _ in range(10))
    assert max(backoff.failed(took_s=20) for _ in range(10)) <= 10
