"""Small curves of lists: whose they are, what a gap is, and that a list asks once for all of them."""

from datetime import timedelta

import numpy as np
import pytest
from django.utils import timezone

from monitoring.samples.ingest import take_samples
from monitoring.series.share_activity import scale_to_percents
from portal.pages.jobs.activity import Activity, join_shares
from portal.templatetags.sparks import build_runs, spark
from tests import make

NAN = float("nan")


def test_the_mean_of_a_jobs_shares_counts_what_is_known():
    now, of_cards = timezone.now(), (np.array([20.0, NAN, NAN]), np.array([5.0, 10.0, NAN]))
    shares = [scale_to_percents(busy, ((now, 25),), now, 60) for busy in of_cards]
    assert join_shares((4, share) for share in shares) == {4: Activity((50.0, 40.0, None))}


def test_now_is_not_known_where_nothing_was_seen_lately():
    assert Activity((50.0, 50.0, None, None, None)).percent == "?"
    assert Activity((None, 50.0, 12.4, None)).percent == "12 %"
    assert Activity((10.0, None, 20.0)).words == "GPU activity in the last hour: mean 15 %, now 20 %"


def test_a_gap_breaks_the_line_and_is_not_0():
    assert [len(run) for run in build_runs([1.0, 2.0, None, None, 3.0, 4.0, 5.0], 100)] == [2, 3]
    alone = build_runs([None, 50.0], 100)
    assert alone == [[(50.0, 10.0), (100.0, 10.0)]]
    assert build_runs([None, None], 100) == []
    assert 'aria-label="a &lt; b"' in spark([1.0], "a < b")


@pytest.fixture
def cast(db):
    cast = make.cast()
    cast.task = make.start(make.job(cast.ada, gpu="1/4", pool="dev", name="llama"), cast.gpus[0])[0]
    for seq in (1, 2):
        share = {"uuid": cast.gpus[0].uuid, "source": "simulated", "busy_ms": 2000 * seq, "used_mib": 900}
        told = {"task": cast.task.uuid.hex, "age_ms": 0, "shares": [share]}
        tick = {"seq": seq, "age_ms": 20_000 - 10_000 * seq, "up_ms": 10_000 * seq, "cards": [], "tasks": [told]}
        take_samples(cast.node, {"run": "r", "ticks": [tick]})
    return cast


def test_the_list_shows_how_busy_each_job_is(cast, client):
    client.force_login(cast.ada)
    page = client.get("/jobs/").content.decode()
    assert 'class="spark"' in page and "80 %" in page and "every 60s" in page
    client.force_login(cast.eve)
    assert 'class="spark"' not in client.get("/jobs/?whose=team").content.decode()


def test_before_a_resize_a_share_counts_of_what_it_was():
    since = timezone.now()
    held = ((since, 50), (since + timedelta(minutes=2), 25))
    assert scale_to_percents(np.full(4, 20.0), held, since, 60).tolist() == [40.0, 40.0, 80.0, 80.0]
