"""What revisions answered: sums over processes are exact, and figures are near to those of the times themselves."""

from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.traffic import BOUNDS_MS, SLOT_S, Traffic, add_up, find_bucket, sum_slots
from services.traffic_counts import ERRORS, KEPT_S, REQUESTS, add_counts, read_slots

seconds = st.floats(0.002, 120.0)


def count(times: list[float]) -> Traffic:
    return add_up(Traffic(1, 0, {find_bucket(one): 1}) for one in times)


@settings(max_examples=30, deadline=None)
@given(st.lists(seconds, min_size=1, max_size=60), st.sampled_from([0.5, 0.95]))
def test_a_quantile_is_within_its_bucket(times, share):
    """A bucket is 19 % wide, and so is the error at most."""
    exact = sorted(times)[max(-(-int(share * 100) * len(times) // 100), 1) - 1] * 1000
    found = count(times).find_quantile_ms(share)
    assert exact / 1.2 <= found <= exact * 1.2


@settings(max_examples=30, deadline=None)
@given(st.lists(seconds, max_size=60), seconds)
def test_who_is_slower_is_counted(times, limit):
    same_bucket = sum(find_bucket(one) == find_bucket(limit) for one in times)
    assert abs(count(times).count_slower(limit * 1000) - sum(one > limit for one in times)) <= same_bucket


def test_times_beyond_all_buckets_and_none():
    assert count([500.0]).find_quantile_ms(0.5) == BOUNDS_MS[-1] and count([500.0]).count_slower(1000) == 1
    assert Traffic().find_quantile_ms(0.95) is None and Traffic().error_share is None


@pytest.mark.django_db
def test_processes_add_to_the_same_slots():
    service = uuid4().int % 10**12  # the cache outlives a test
    now = 1_900_000_000.0
    assert [slot.traffic for slot in read_slots(service, now - 12, now)] == [{}] * 3
    for _ in range(2):  # two processes
        add_counts({(service, 70, REQUESTS): 3, (service, 70, ERRORS): 1, (service, 70, 12): 2}, now)
        add_counts({(service, 71, REQUESTS): 1}, now)
        add_counts({(service, 70, REQUESTS): 1, (service + 1, 80, REQUESTS): 9}, now - SLOT_S)
    slots = read_slots(service, now - 1000, now)
    assert slots[0].began >= now - KEPT_S - SLOT_S
    assert sum_slots(slots, 0, 70) == Traffic(8, 2, {12: 4}) and sum_slots(slots, 0).requests == 10
    assert sum_slots(slots, now, 70) == Traffic(6, 2, {12: 4})
    assert sum_slots(read_slots(service, now - 1, now), 0).requests == 8  # only what began since
