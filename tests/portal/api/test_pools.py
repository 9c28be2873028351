"""The policy of pools and their windows by REST: everybody reads them, admins change them."""

import pytest

from bench.b2 import KNOWN
from bench.replays.tessera_replay import PREEMPT_LONGER_POLICY
from cluster.models import Pool, Window
from events.models import Event
from scheduler.loading.snapshots import build_policy
from scheduler.reconcile.task_specs import build_task_spec
from tests import make
from tests.api_client import BASE, Api

pytestmark = pytest.mark.django_db
NIGHT = {"lender": "dev", "borrower": "train", "begins": "20:00", "ends": "08:00", "zone": "Asia/Shanghai"}


def patch(api: Api, path: str, body: dict):
    return api.client.patch(BASE + path, body, content_type="application/json", headers=api.headers)


def wrong(answer) -> list[str]:
    assert answer.status_code == 400
    return [error["pointer"] for error in answer.json()["errors"]]


@pytest.fixture
def root(cast):
    return Api(make.token(make.admin()))


def test_an_admin_changes_one_field_of_a_policy_and_everybody_reads_it(root, eve):
    before = eve.get("pools/train").json()
    answer = patch(root, "pools/train", {"reservations": 5, "arrangement": "spread", "default_max_time_s": 3600})
    assert answer.status_code == 200
    now = {"reservations": 5, "arrangement": "spread", "default_max_time_s": 3600}
    assert eve.get("pools/train").json() == before | now == answer.json()
    assert patch(root, "pools/train", {"default_max_time_s": None}).json()["default_max_time_s"] is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reservations", -1),
        ("reservations", 17),
        ("ageing_s", 59),
        ("ageing_s", 366 * 86_400),
        ("longest_s", 3599),
        ("max_grace_s", 3601),
        ("weight_links", 1001),
        ("cpu_overcommit_percent", 99),
        ("arrangement", "stack"),
        ("preempt", "perhaps"),
        ("default_max_time_s", -1),
        ("stop_longer", 0),
        ("stop_longer", 2.5),
        ("stop_longer", 4),
        ("most_stops", 0),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_its_field(root, field, value):
    was = Pool.objects.filter(name="train").values().get()
    assert wrong(patch(root, "pools/train", {"preempt": False, field: value})) == [f"/{field}"]
    assert Pool.objects.filter(name="train").values().get() == was


def test_a_pool_says_what_jobs_are_that_do_not_say(root, cast):
    assert patch(root, "pools/train", {"batch_is_preemptible": True}).json()["batch_is_preemptible"] is True
    assert make.job(cast.ada, gpu="1", pool="train").preemptible
    patch(root, "pools/train", {"batch_is_preemptible": False})
    assert not make.job(cast.ada, gpu="1", pool="train").preemptible


def test_a_pool_keeps_mps_from_its_slices(root, cast):
    assert patch(root, "pools/dev", {"allows_mps": False}).json()["allows_mps"] is False
    (task,) = make.start(make.job(cast.ada, gpu="1/4", pool="dev"), state="ASSIGNED")
    assert build_task_spec(task).mps is False
    patch(root, "pools/dev", {"allows_mps": True})
    assert build_task_spec(task).mps is True


def test_short_jobs_stop_longer_ones_only_where_they_go_first(root):
    answer = patch(root, "pools/train", {"short_first": True, "stop_longer": 4, "most_stops": 2})
    assert {"short_first": True, "stop_longer": 4, "most_stops": 2}.items() <= answer.json().items()
    answer = patch(root, "pools/train", {"short_first": False})
    assert wrong(answer) == ["/stop_longer"] and "leave this empty" in answer.json()["detail"]
    assert patch(root, "pools/train", {"short_first": False, "stop_longer": None}).json()["stop_longer"] is None


def test_a_pool_can_be_set_to_what_the_benches_play(root):
    for policy in (KNOWN, PREEMPT_LONGER_POLICY):
        values = {name: getattr(policy, name) for name in ("ageing_s", "reservations", "short_first", "longest_s")}
        values |= {"stop_longer": policy.stop_longer, "most_stops": policy.most_stops}
        assert patch(root, "pools/train", values).status_code == 200
        found = next(pool for pool in build_policy(Pool.objects.filter(name="train")).pools)
        assert {name: getattr(found, name) for name in values} == values


def test_a_pool_is_not_renamed_and_who_is_no_admin_changes_nothing(root, ada):
    assert patch(root, "pools/train", {"name": "other"}).json()["name"] == "train"
    assert patch(ada, "pools/train", {"preempt": False}).status_code == 403
    assert patch(root, "pools/nowhere", {}).status_code == 404


def test_a_window_is_opened_listed_and_closed(root, ada):
    made = root.post("windows", NIGHT | {"weekdays": [5, 1, 1], "holidays": ["2027-01-01"]})
    shown = made.json()
    assert made.status_code == 201 and made["Location"].endswith(f"/windows/{shown['id']}")
    said = {name: shown[name] for name in (*NIGHT, "weekdays", "holidays")}
    assert said == NIGHT | {"weekdays": [1, 5], "holidays": ["2027-01-01"]}
    assert ada.get("windows").json()["results"] == [shown] == [ada.get(f"windows/{shown['id']}").json()]
    assert root.delete(f"windows/{shown['id']}").status_code == 204 and not Window.objects.exists()
    assert root.get(f"windows/{shown['id']}").status_code == 404


def test_a_window_says_until_when_it_is_open(root):
    around_the_clock = NIGHT | {"weekdays": [1, 2, 3, 4, 5, 6, 7], "begins": "00:00", "ends": "00:00"}
    assert root.post("windows", around_the_clock).json()["open_until"] is not None
    assert root.post("windows", NIGHT | {"weekdays": [], "holidays": ["2001-01-01"]}).json()["open_until"] is None


@pytest.mark.parametrize(
    ("field", "value", "pointer"),
    [
        ("lender", "nowhere", "/lender"),
        ("lender", "de\u0000v", "/lender"),
        ("borrower", "dev", "/borrower"),
        ("weekdays", [8], "/weekdays/0"),
        ("begins", "25:00", "/begins"),
        ("zone", "Atlantis", "/zone"),
        ("holidays", ["soon"], "/holidays/0"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused_by_its_field(root, field, value, pointer):
    assert wrong(root.post("windows", NIGHT | {field: value})) == [pointer]
    assert not Window.objects.exists()


def test_a_pool_lends_to_one_other_at_a_time(root):
    make.pool("third")
    root.post("windows", NIGHT)
    refused = root.post("windows", NIGHT | {"borrower": "third"})
    assert wrong(refused) == ["/borrower"] and "dev already lends to train." in str(refused.json())


def test_a_pool_that_is_not_there_is_told_with_those_that_are(root):
    (error,) = root.post("windows", NIGHT | {"lender": "moon"}).json()["errors"]
    assert (error["pointer"], error["code"]) == ("/lender", "unknown_pool")
    assert error["detail"] == "There is no pool “moon”. Choose one of: dev, train."


def test_who_is_no_admin_opens_and_closes_no_window(root, ada):
    window = root.post("windows", NIGHT).json()["id"]
    assert ada.post("windows", NIGHT).status_code == ada.delete(f"windows/{window}").status_code == 403


def test_a_pool_is_created_once_with_the_usual_policy(root, eve):
    made = root.post("pools", {"name": "large", "reservations": 5})
    assert made.status_code == 201 and made["Location"].endswith("/pools/large")
    assert made.json()["batch_is_preemptible"] is True
    assert eve.get("pools/large").json() == made.json() and made.json()["reservations"] == 5
    again = root.post("pools", {"name": "large"})
    assert (again.status_code, again.json()["code"]) == (409, "name_taken")
    assert wrong(root.post("pools", {"name": "Not A Name"})) == ["/name"]
    assert Event.objects.get(kind="pool").actor == "rita"


def test_a_window_is_changed_in_part(root):
    made = root.post("windows", NIGHT).json()
    changed = patch(root, f"windows/{made['id']}", {"ends": "09:30", "weekdays": [7, 6, 6]})
    assert changed.json() == made | {"ends": "09:30", "weekdays": [6, 7], "open_until": changed.json()["open_until"]}
    assert wrong(patch(root, f"windows/{made['id']}", {"borrower": "dev"})) == ["/borrower"]
    assert wrong(patch(root, f"windows/{made['id']}", {"zone": "Moon/Base"})) == ["/zone"]
    assert Event.objects.filter(kind="window", verb="window.changed").count() == 1
