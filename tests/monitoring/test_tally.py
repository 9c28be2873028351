"""What pools and teams hold and use adds up, and what is not known is no idleness."""

import pytest
from django.utils import timezone

from monitoring.models import CardNow, Sample, TaskNow
from monitoring.samples.growth import scale_to_share
from monitoring.samples.shares import judge_share
from monitoring.series.keys import AMOUNTS, Kind
from monitoring.series.tally import record_tally
from quotas.models import Holding
from tests import make


@pytest.mark.parametrize(
    ("compute", "share", "state"),
    [
        (100, None, "unknown"),
        (100, (None, "measured"), "unknown"),
        (100, (5.0, "measured"), "active"),
        (100, (4.9, "measured"), "idle"),
        (25, (1.3, "measured"), "active"),  # a quarter that is busy for more than a twentieth of its time
        (25, (1.2, "measured"), "idle"),
        (0, (5.0, "measured"), "active"),
    ],
)
def test_a_share_is_idle_below_a_twentieth_of_its_time(compute, share, state):
    busy = share and share[0]
    assert judge_share(None if busy is None else scale_to_share(busy, compute)) == state


def tally() -> dict[tuple[Kind, int], dict[str, int]]:
    record_tally()
    rows = Sample.objects.order_by("at")
    return {(Kind(row.kind), row.subject): dict(zip(AMOUNTS, row.values, strict=True)) for row in rows}


@pytest.mark.django_db
def test_pools_and_teams_are_tallied():
    cast = make.cast()
    card, other = cast.gpus
    task = make.start(make.job(cast.ada, gpu="1/4"), card)[0]
    whole = make.start(make.job(cast.ada, gpu="1"), other)[0]
    (quarter,) = Holding.objects.filter(task=task.uuid, gpu__isnull=False).values_list("gpu_milli", flat=True)
    first, second = ((Kind.POOL, gpu.pool_id) for gpu in cast.gpus)
    team = (Kind.TEAM, task.job.team_id)
    told = tally()
    assert told[team]["unknown_milli"] == told[team]["held_milli"] == quarter + 1000
    now = {"at": timezone.now(), "term": 1, "up_ms": 1}
    share = {"uuid": card.uuid, "source": "simulated", "busy_percent": 0.5, "up_ms": 1}
    TaskNow.objects.create(task=task, shares=[share], **now)
    TaskNow.objects.create(task=whole, **now)
    CardNow.objects.create(gpu=other, source="measured", busy_percent=60, **now)
    told = tally()
    assert list(told[team].values()) == [None, quarter + 1000, 1000, quarter, 0]
    assert list(told[first].values()) == [1000, quarter, 0, quarter, 0]
    assert list(told[second].values()) == [1000, 1000, 1000, 0, 0]
    assert Sample.objects.filter(source="simulated").count() == 2
