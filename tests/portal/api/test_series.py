"""Series over REST: what a job, its cards, pools and teams did, who may read it, and bad questions."""

import csv
from datetime import timedelta

import pytest
from django.utils import timezone

from monitoring.models import Sample
from monitoring.series.keys import Kind
from monitoring.series.store import keep_samples
from monitoring.series.tiers import floor_time
from quotas.models import Holding
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    """A quarter of a card that is busy 20 % of the card's time, seen for all but one of ten minutes."""
    cast = make.cast()
    cast.card = cast.gpus[0]
    cast.task = make.start(make.job(cast.ada, gpu="1/4"), cast.card)[0]
    cast.api = Api(make.token(cast.ada))
    cast.since = floor_time(timezone.now(), 60) - timedelta(minutes=10)
    cast.task.started_at = cast.since
    cast.task.save()
    cast.job = cast.task.job
    for slot in range(60):
        if not 30 <= slot < 36:
            keep(cast, slot, Kind.SHARE, cast.task.pk, cast.card.pk, [2000, 900])
            keep(cast, slot, Kind.TASK, cast.task.pk, 0, [1500, 512, 3, None, 8])
        keep(cast, slot, Kind.CARD, cast.card.pk, 0, [5000, 1000, 61, 200])
    keep(cast, 59, Kind.TEAM, cast.job.team_id, 0, [None, 250, 250, 0, 0])
    keep(cast, 59, Kind.POOL, cast.card.pool_id, 0, [1000, 250, 250, 0, 0])
    return cast


def keep(world, slot: int, kind: Kind, subject: int, card: int, values: list) -> None:
    at = world.since + timedelta(seconds=10 * (slot + 1))
    row = Sample(kind=kind, subject=subject, card=card, at=at, span_ms=10_000, source="simulated", values=values)
    keep_samples([row])


def lines(answer: dict) -> dict[str, dict]:
    return {line["metric"]: line for line in answer["series"]}


def test_a_job_tells_what_its_slice_did_and_when_nothing_was_seen(world):
    answer = world.api.get(f"jobs/{world.job.public_id}/metrics", {"step": 10}).json()
    found = lines(answer)
    assert (answer["of"], answer["step_s"], answer["from"]) == (world.job.public_id, 10, show(world.since))
    assert list(found) == [
        "cpu_cores",
        "memory_mib",
        "read_kib_s",
        "write_kib_s",
        "net_rx_kib_s",
        "net_tx_kib_s",
        "gpu_busy_percent",
        "gpu_memory_mib",
    ]
    busy = found["gpu_busy_percent"]
    assert busy["values"][:60] == [80.0] * 30 + [None] * 6 + [80.0] * 24  # of a quarter of the card
    assert (busy["unit"], busy["source"], busy["limit"]) == ("%", "simulated", 100)
    assert (found["cpu_cores"]["values"][0], set(found["read_kib_s"]["values"])) == (1.5, {None})
    assert found["cpu_cores"]["limit"] == world.task.cpu_milli / 1000
    (gap,) = answer["gaps"]
    assert (gap["from"], gap["to"]) == (
        show(world.since + timedelta(minutes=5)),
        show(world.since + timedelta(minutes=6)),
    )
    assert world.task.name in gap["why"] and world.node.name in gap["why"]


def show(at) -> str:
    return at.isoformat().replace("+00:00", "Z")


def test_only_what_is_asked_for_is_told_in_steps_that_are_kept(world):
    asked = {"metrics": "gpu_busy_percent,power_w", "step": 65, "from": show(world.since)}
    answer = world.api.get(f"gpus/{world.card.uuid}/metrics", asked).json()
    assert answer["step_s"] == 120 and set(lines(answer)) == {"gpu_busy_percent", "power_w"}
    assert lines(answer)["power_w"]["values"][1:5] == [200.0] * 4
    keep(world, 3, Kind.NODE, world.node.pk, 0, [1500, 900, None, 250])
    answer = world.api.get(f"nodes/{world.node.name}/metrics", {"step": 10}).json()
    busy = lines(answer)["cpu_cores"]
    assert ({1.5, None}, world.node.name) == (set(busy["values"]), busy["name"])
    assert lines(answer)["gpu_memory_mib"]["limit"] == world.card.memory_mib


@pytest.mark.parametrize("what", ["team", "pool"])
def test_pools_and_teams_tell_what_is_held_and_active(world, what):
    name = {"team": world.job.team.name, "pool": world.card.pool.name}[what]
    found = lines(world.api.get(f"{what}s/{name}/metrics", {"step": 10}).json())
    assert [value for value in found["active_gpus"]["values"] if value is not None] == [0.25]
    assert ("capacity_gpus" in found) == (what == "pool")


def test_csv_has_a_column_for_each_line(world):
    path = f"jobs/{world.job.public_id}/metrics"
    answer = world.api.get(path, {"step": 60, "metrics": "gpu_busy_percent"}, Accept="text/csv")
    head, *rows = csv.reader(answer.content.decode().splitlines())
    assert answer.headers["Content-Type"].startswith("text/csv")
    assert head == ["time", f"{world.task.name} · GPU 0 gpu_busy_percent"]
    assert rows[0] == [world.since.isoformat(), "80.0"] and rows[5][1] == ""


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"metrics": "speed"}, "/metrics"),
        ({"from": "2026-11-02T12:00:00Z", "to": "2026-11-02T12:00:00Z"}, "/from"),
        ({"from": "2020-01-01T12:00:00Z"}, "/from"),
        ({"from": "yesterday"}, "/from"),
        ({"step": 0}, "/step"),
    ],
)
def test_bad_questions_name_the_field(world, asked, field):
    answer = world.api.get(f"jobs/{world.job.public_id}/metrics", asked)
    assert answer.status_code == 400 and [error["pointer"] for error in answer.json()["errors"]] == [field]


def test_a_job_that_never_ran_has_no_lines(world):
    job = make.job(world.ada)
    answer = world.api.get(f"jobs/{job.public_id}/metrics").json()
    assert (answer["series"], answer["gaps"]) == ([], [])


def test_curves_of_others_are_not_there(world):
    for path in (f"jobs/{world.job.public_id}/metrics", f"teams/{world.job.team.name}/metrics"):
        assert Api(make.token(world.eve)).get(path).status_code == 404


def test_before_a_resize_a_share_counts_of_what_it_was(world):
    """Half a card for the first five minutes, then a quarter."""
    quarter = Holding.objects.get(task=world.task.uuid, gpu=world.card)
    Holding.objects.create(
        **{name: getattr(quarter, name) for name in ("task", "team", "user", "pool", "node", "gpu")},
        gpu_compute_percent=50,
        held_from=world.since,
        released_at=world.since + timedelta(minutes=5),
    )
    Holding.objects.filter(pk=quarter.pk).update(held_from=world.since + timedelta(minutes=5))
    asked = {"step": 10, "metrics": "gpu_busy_percent"}
    (busy,) = world.api.get(f"jobs/{world.job.public_id}/metrics", asked).json()["series"]
    assert busy["values"][:60] == [40.0] * 30 + [None] * 6 + [80.0] * 24
