"""What cards and tasks use now, on map, machine and job: in words, with what is simulated and what is not known."""

import pytest
from django.utils import timezone, translation

from common.resources import show_memory
from monitoring.models import CardNow, NodeNow
from monitoring.samples.ingest import take_samples
from monitoring.samples.newest import CardUse, ShareUse, TaskUse
from portal.access.redacted_rows import list_node_views
from portal.pages.cluster.machines import build_machines
from portal.wording.usage import describe_card_heat, describe_card_use, describe_share_use, describe_task_use
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db
NOW = timezone.now()
GB = 1000**3 // 1024**2 + 1


@pytest.fixture
def cast():
    """ada's quarter of the first card was busy for a fifth of the card's time, and the second card for none of it."""
    cast = make.cast()
    cast.job = make.job(cast.ada, gpu="1/4", pool="dev", name="llama")
    cast.task = make.start(cast.job, cast.gpus[0])[0]
    for seq, busy_ms, cpu_ms in ((1, 0, 0), (2, 2000, 15_000)):
        shares = [{"uuid": cast.gpus[0].uuid, "source": "simulated", "busy_ms": busy_ms, "used_mib": 7 * GB}]
        counted = {"age_ms": 0, "cpu_ms": cpu_ms, "memory_mib": 2 * GB, "peak_mib": 3 * GB, "processes": 1}
        cards = [
            {"uuid": cast.gpus[0].uuid, "source": "simulated", "busy_ms": busy_ms, "used_mib": 7 * GB, "power_w": 90},
            {"uuid": cast.gpus[1].uuid, "source": "measured", "busy_ms": 0, "temperature_c": 41},
        ]
        tick = {"seq": seq, "age_ms": 0, "up_ms": 10_000 * seq, "cards": cards}
        tick["tasks"] = [{"task": cast.task.uuid.hex, **counted, "shares": shares}]
        disks = [
            {"path": "/data", "used_mib": 3 * GB, "all_mib": 4 * GB, "inodes": 9, "all_inodes": 10, "read_only": True}
        ]
        tick["node"] = {"cpu_ms": cpu_ms, "cores": 8, "memory_mib": 5 * GB, "memory_all_mib": 16 * GB, "disks": disks}
        take_samples(cast.node, {"run": "r", "ticks": [tick]})
    return cast


@pytest.fixture
def look(client):
    def look(person, path):
        client.force_login(person)
        return client.get(path, follow=True).content.decode()

    return look


def card_of(person, index=0):
    return build_machines(list_node_views(person))[0].cards[index]


@pytest.mark.parametrize("path", ["/cluster/gpus/", "/nodes/n1/"])
def test_each_card_says_how_busy_it_is_and_whether_that_is_simulated(cast, look, path):
    page = look(cast.ada, path)
    assert f"busy 20 % · 7 GB of {show_memory(cast.gpus[0].memory_mib)} in use (simulated)" in page
    assert "busy 0 % · memory in use: not known" in page and "every 10s" in page


def test_a_machine_shows_power_and_temperature_as_far_as_they_are_known(cast, look):
    page = look(cast.ada, "/nodes/n1/")
    assert "<span>90 W</span>" in page and "<span>41 °C</span>" in page


def test_a_machine_says_what_it_uses_itself_and_what_is_not_known(cast, look):
    page = look(cast.eve, "/nodes/n1/")
    for words in (
        "1.5 of 8 cores busy",
        "5 GB of 16 GB in use",
        "3 GB of 4 GB in use · 90 % of its inodes · read-only",
    ):
        assert words in page, words
    assert "<dt>Network</dt><dd>not known</dd>" in page and "<dt>Agent</dt>" not in page
    NodeNow.objects.update(at=None)
    assert "no sample came" in look(cast.eve, "/nodes/n1/")


def test_the_api_tells_what_a_machine_uses(cast):
    use = Api(make.token(cast.eve)).get("nodes/n1").json()["use"]
    assert (use["cpu"], use["cores"], use["load"]) == ({"value": 1500, "text": "1.5"}, 8, None)
    assert use["disks"][0]["path"] == "/data" and use["disks"][0]["read_only"] is True


def test_a_slice_is_filled_by_how_busy_its_share_is(cast, look):
    segment = card_of(cast.ada).segments[0]
    assert segment.activity == 80.0 and "uses 80 % of its share" in segment.title
    page = look(cast.ada, "/cluster/gpus/")
    assert '<rect x="0" y="20" width="100" height="100"/>' in page and "filled as high as it is busy" in page


def test_a_stranger_sees_the_cards_activity_and_not_the_slices(cast, look):
    assert card_of(cast.eve).segments[0].activity is None
    page = look(cast.eve, "/cluster/gpus/")
    assert "busy 20 %" in page and "of its share" not in page


def test_a_card_that_was_not_sampled_is_not_said_to_be_idle(cast, look):
    CardNow.objects.all().delete()
    page = look(cast.ada, "/cluster/gpus/")
    assert "use not known" in page and "busy" not in page.split('id="map"')[1].replace("how busy", "")


def test_the_job_says_what_its_task_uses(cast, look):
    page = look(cast.ada, f"/j/{cast.job.public_id}/")
    share_mib = cast.task.cards[0]["memory_mib"]
    for words in (
        f"keeps the card busy 20 % of the time · 7 GB of {show_memory(share_mib)} in use (simulated)",
        "CPU: 1.5 of ",
        ", peak 3 GB",
        "1 process",
        "every 5s",
    ):
        assert words in page, words


def test_a_job_that_was_not_sampled_says_that_its_use_is_not_known(cast, look):
    other = make.job(cast.ada, gpu="1/4", pool="dev")
    make.start(other, cast.gpus[0])
    assert look(cast.ada, f"/j/{other.public_id}/").count("use not known") == 2  # of its card, and of the rest


def test_a_job_that_ended_uses_nothing(cast, look):
    make.end(cast.job)
    page = look(cast.ada, f"/j/{cast.job.public_id}/")
    assert "keeps the card busy" not in page and "use not known" not in page


def test_what_is_not_known_is_said_and_never_0():
    said = (describe_card_use(None, GB), describe_share_use(None, GB), describe_task_use(None, 1, 1))
    assert set(said) == {"use not known"}
    assert describe_card_use(CardUse(NOW, "measured", None, None, None, None), GB) == (
        "how busy: not known · memory in use: not known"
    )
    assert describe_card_heat(CardUse(NOW, "measured", None, None, None, None)) == describe_card_heat(None) == ""
    assert describe_share_use(ShareUse("estimated", 0.2, None), None) == (
        "keeps the card busy <1 % of the time (estimated)"
    )
    use = TaskUse(NOW, None, None, None, None, None, None, None, None, {})
    assert describe_task_use(use, 4000, GB) == "CPU: not known · memory: not known"


def test_disk_is_told_by_the_second():
    use = TaskUse(NOW, 0, GB, None, 1200, 5000, 3, 1000, 0, {})
    assert describe_task_use(use, 4000, 2 * GB) == (
        "CPU: 0 of 4 · memory: 1 GB of 2 GB · 1,200 processes · disk: 5.1 MB/s read, 3 kB/s written"
        " · network: 1.0 MB/s received, 0 kB/s sent"
    )


def test_it_is_said_in_chinese(cast):
    with translation.override("zh-hans"):
        assert "忙碌 20%" in card_of(cast.ada).use and "模拟" in card_of(cast.ada).use
