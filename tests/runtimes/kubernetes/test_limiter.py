import threading
from functools import partial

import pytest

from runtimes.kubernetes.api.limiter import Bucket, Limiter, Urgency
from tests.runtimes.worlds import wait_for


def test_a_burst_goes_at_once_and_then_so_many_a_second():
    bucket = Bucket(per_s=10, burst=3, now=0.0)
    for _ in range(3):
        assert bucket.wait_s(0.0) == 0
        bucket.take(0.0)
    assert bucket.wait_s(0.0) == pytest.approx(0.1)
    assert bucket.wait_s(0.1) == pytest.approx(0.0)


def test_a_rested_bucket_holds_no_more_than_a_burst():
    bucket = Bucket(per_s=10, burst=2, now=0.0)
    for _ in range(2):
        bucket.take(100.0)
    assert bucket.wait_s(100.0) > 0


def test_a_closed_bucket_opens_without_a_burst():
    bucket = Bucket(per_s=10, burst=40, now=0.0)
    bucket.close(0.0, 5)
    assert bucket.wait_s(1.0) == pytest.approx(4.0)
    assert bucket.wait_s(5.0) == 0


def test_in_any_second_no_more_than_burst_and_rate():
    bucket, now, sent = Bucket(per_s=20, burst=40, now=0.0), 0.0, 0
    while now <= 10.0:
        if bucket.wait_s(now) == 0:
            bucket.take(now)
            sent += 1
        else:
            now += 0.001
    assert 239 <= sent <= 241


def test_deletes_go_before_looks_and_looks_before_creates():
    limiter, order = Limiter(per_s=100, burst=1), []
    limiter.close(1.0)

    def go(urgency):
        limiter.acquire(urgency)
        order.append(urgency)

    threads = []
    for urgency in (Urgency.CREATE, Urgency.STATUS, Urgency.DELETE):
        threads.append(threading.Thread(target=go, args=(urgency,)))
        threads[-1].start()
        wait_for(partial(lambda known: len(limiter._waiting) == known, len(threads)))
    for thread in threads:
        thread.join(5)
    assert order == [Urgency.DELETE, Urgency.STATUS, Urgency.CREATE]
