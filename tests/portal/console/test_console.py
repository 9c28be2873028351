"""The console: admins change, auditors look, others stay out; people's units; a history of what was changed."""

import re
from datetime import time

import pytest

from accounts.models import Team, User
from cluster.models import Gpu, Node, Pool, Window
from common.errors import InvalidInput
from events.models import Event
from events.record_and_publish import Actor
from events.transitions import Move, advance
from portal.console.quotas import text_bar
from quotas.amounts import cards_text, parse_cards
from quotas.models import Quota, UserLimit
from scheduler.core.model.types import Policy
from scheduler.core.placement.scores import SCORES, spread_scores, weigh_scores
from scheduler.loading.snapshots import load_world
from tests import make

pytestmark = pytest.mark.django_db


def nlp_in_dev() -> Quota:
    return Quota.objects.get(team__name="nlp", pool__name="dev")


QUOTA = {
    "gpu_milli_guarantee": "",
    "gpu_milli_limit": "",
    "cpu_milli_guarantee": "",
    "cpu_milli_limit": "",
    "memory_mib_guarantee": "",
    "memory_mib_limit": "",
    "weight": "1",
    "cell": "1",
}


def change_quota(client, **amounts):
    return client.post(f"/admin/quotas/quota/{nlp_in_dev().pk}/change/", {**QUOTA, **amounts})


POOL = {
    "description": "",
    "shared": "on",
    "max_slices_per_gpu": 8,
    "cpu_overcommit_percent": 200,
    "reservations": 2,
    "most_stops": 10,
    "high_priority": "budget",
    "high_gpu_hours": 40,
    "arrangement": "pack",
    "weight_useful": 100,
    "weight_data": 20,
    "weight_whole": 8,
    "weight_full_cards": 4,
    "weight_links": 2,
    "weight_full_nodes": 1,
}


def change_pool(client, pool, **fields):
    return client.post(f"/admin/cluster/pool/{pool.pk}/change/", {**POOL, **fields})


# ---- who may come in ----


def test_a_visitor_signs_in_at_the_one_door(client):
    assert client.get("/admin/", follow=True).redirect_chain[-1][0].startswith("/sign-in/?next=%2Fadmin%2F")


def test_the_console_has_no_password_form_of_its_own(client):
    assert client.post("/admin/login/", {"username": "rita", "password": "x"}).url.startswith("/sign-in/")


def test_a_member_of_a_team_is_refused(cast, browser):
    assert browser(cast.bob).get("/admin/", follow=True).status_code == 403


LISTS = (
    "accounts/user",
    "accounts/team",
    "cluster/pool",
    "cluster/node",
    "cluster/gpu",
    "quotas/quota",
    "quotas/userlimit",
)


@pytest.mark.parametrize("path", LISTS)
def test_every_list_and_every_row_opens_for_admin_and_auditor(cast, root, auditor, path):
    make.start(make.job(cast.ada, gpu="1/4", pool="dev"))
    model = {m._meta.label_lower.replace(".", "/"): m for m in (User, Team, Pool, Node, Gpu, Quota, UserLimit)}[path]
    for client in (root, auditor):
        assert client.get(f"/admin/{path}/").status_code == 200
        assert client.get(f"/admin/{path}/{model.objects.first().pk}/change/").status_code == 200
        assert client.get(f"/admin/{path}/{model.objects.first().pk}/history/").status_code == 200


@pytest.mark.parametrize("path", LISTS)
def test_an_auditor_changes_nothing(cast, auditor, path):
    assert auditor.post(f"/admin/{path}/add/", {}).status_code == 403
    assert auditor.post(f"/admin/{path}/1/delete/", {"post": "yes"}).status_code in {
        302,
        403,
    }  # 302: there is no row 1
    assert change_quota(auditor, gpu_milli_limit="1").status_code == 403
    assert nlp_in_dev().gpu_milli_limit is None


@pytest.mark.parametrize("path", LISTS)
def test_nothing_is_deleted(cast, root, path):
    model = {m._meta.label_lower.replace(".", "/"): m for m in (User, Team, Pool, Node, Gpu, Quota, UserLimit)}[path]
    root.get(f"/admin/{path}/")
    answer = root.post(f"/admin/{path}/{model.objects.first().pk}/delete/", {"post": "yes"})
    assert answer.status_code == 403 and "delete_selected" not in root.get(f"/admin/{path}/").content.decode()


@pytest.mark.parametrize(
    "path", ["", "cluster/window/add/", "quotas/quota/", "quotas/quota/add/", "accounts/user/", "accounts/user/add/"]
)
def test_nothing_inline_is_asked_of_the_browser(cast, root, path):
    """The policy of the portal holds here too: no inline script or style would run."""
    page = root.get(f"/admin/{path}").content.decode()
    assert " style=" not in page and not re.search(r"<script(?![^>]* src=)|<style| on[a-z]+=", page)


def test_every_page_leads_back_to_the_portal(root):
    assert "Back to the portal" in root.get("/admin/").content.decode()


# ---- amounts ----


@pytest.mark.parametrize(("text", "milli"), [("1.5", 1500), ("0.25", 250), ("1/4", 250), ("0", 0), ("64", 64_000)])
def test_cards_are_read_in_peoples_units(text, milli):
    assert parse_cards(text) == milli and parse_cards(cards_text(milli)) == milli


@pytest.mark.parametrize("text", ["-1", "1.0005", "x", "1/0", "1/3", "NaN", "Infinity", "1e9", "1/4/2", "9" * 30])
def test_what_is_no_number_of_cards_is_refused(text):
    with pytest.raises(InvalidInput):
        parse_cards(text)


@pytest.mark.parametrize(
    ("used", "limit", "bar"), [(0, 1000, "▱▱"), (1, 1000, "▰▱"), (999, 1000, "▰▱"), (1000, 1000, "▰▰"), (5, None, "")]
)
def test_only_a_full_limit_shows_a_full_bar(monkeypatch, used, limit, bar):
    monkeypatch.setattr("portal.console.quotas.BAR_CELLS", 2)
    assert text_bar(used, limit) == bar


# ---- quotas ----


def test_a_quota_is_typed_in_cards_cores_and_gigabytes(cast, root):
    change_quota(root, gpu_milli_guarantee="0.5", gpu_milli_limit="1.5", cpu_milli_limit="8", memory_mib_limit="32GiB")
    quota = nlp_in_dev()
    assert (quota.gpu_milli_guarantee, quota.gpu_milli_limit) == (500, 1500)
    assert (quota.cpu_milli_limit, quota.memory_mib_limit) == (8000, 32_768)


def test_a_quota_is_shown_as_it_was_typed(cast, root):
    change_quota(root, gpu_milli_limit="1.5", memory_mib_limit="32GiB")
    page = root.get(f"/admin/quotas/quota/{nlp_in_dev().pk}/change/").content.decode()
    assert 'value="1.5"' in page and 'value="32GiB"' in page


@pytest.mark.parametrize(
    ("amounts", "field", "words"),
    [
        (
            {"gpu_milli_guarantee": "1", "gpu_milli_limit": "0.5"},
            "gpu_milli_guarantee",
            "The guarantee (1) is above the limit (½)",
        ),
        ({"gpu_milli_guarantee": "7"}, "gpu_milli_guarantee", "only 1 are not promised"),
        ({"gpu_milli_limit": "many"}, "gpu_milli_limit", "is not a valid number of cards"),
        ({"memory_mib_limit": "64"}, "memory_mib_limit", "has no unit"),
        ({"cpu_milli_limit": "1.00001"}, "cpu_milli_limit", "is not a valid number of cores"),
        ({"cell": "8"}, "cell", "No node has exactly 8 cards of pool dev; the largest has 1."),
        ({"cell": "0"}, "cell", "greater than or equal to 1"),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused_at_its_field(cast, root, amounts, field, words):
    answer = change_quota(root, **amounts)
    assert words in " ".join(answer.context["adminform"].form.errors[field])
    assert nlp_in_dev().gpu_milli_limit is None and not Event.objects.filter(kind="quota").exists()


def test_the_history_of_a_quota_says_who_what_from_and_to(cast, root):
    change_quota(root, gpu_milli_limit="1")
    change_quota(root, gpu_milli_limit="1.5")
    page = root.get(f"/admin/quotas/quota/{nlp_in_dev().pk}/history/").content.decode()
    assert "<td>rita</td><td>GPU limit</td><td>1</td><td>1.5</td>" in page


def test_a_new_quota_is_made_once_for_a_team_and_pool(cast, root):
    new = make.team("new")
    fields = {**QUOTA, "team": new.pk, "pool": cast.dev.pk, "gpu_milli_limit": "1"}
    root.post("/admin/quotas/quota/add/", fields)
    assert root.post("/admin/quotas/quota/add/", fields).status_code == 200
    assert Quota.objects.get(team=new).gpu_milli_limit == 1000


def test_the_list_shows_what_is_used_against_the_limit(cast, root):
    change_quota(root, gpu_milli_limit="1")
    make.start(make.job(cast.ada, gpu="1/4", pool="dev"))
    assert "▰▰▰▱▱▱▱▱▱▱</span> ¼ of 1" in root.get("/admin/quotas/quota/").content.decode()


def test_a_persons_limit_is_typed_and_kept_with_its_history(cast, root):
    everyone = dict.fromkeys(("cpu_milli", "memory_mib", "jobs_running", "jobs_waiting", "notebooks_running"), "")
    root.post(
        "/admin/quotas/userlimit/add/", {"user": cast.ada.pk, "gpu_milli": "1/2", **everyone, "notebook_hours": ""}
    )
    limit = UserLimit.objects.get(user=cast.ada)
    assert limit.gpu_milli == 500
    page = root.get(f"/admin/quotas/userlimit/{limit.pk}/history/").content.decode()
    assert "<td>rita</td><td>GPU</td><td>–</td><td>½</td>" in page


# ---- people ----

USER = {"username": "zoe", "full_name": "Zoe", "email": "", "uid": "", "platform_role": "none"}
NO_ROWS = {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0"}


def test_a_new_person_gets_the_next_uid(cast, root, settings):
    root.post("/admin/accounts/user/add/", {**USER, **NO_ROWS})
    zoe = User.objects.get(username="zoe")
    assert settings.TESSERA_UID_RANGE[0] <= zoe.uid <= settings.TESSERA_UID_RANGE[1] and not zoe.has_usable_password()


def test_a_uid_may_be_set_to_match_files(cast, root):
    root.post("/admin/accounts/user/add/", {**USER, **NO_ROWS, "uid": "1234"})
    assert User.objects.get(username="zoe").uid == 1234


@pytest.mark.parametrize("wrong", [{"username": "ADA"}, {"username": "a b"}, {"uid": "12"}, {"uid": "x"}])
def test_a_person_that_makes_no_sense_is_not_made(cast, root, wrong):
    before = User.objects.count()
    assert root.post("/admin/accounts/user/add/", {**USER, **NO_ROWS, **wrong}).status_code == 200
    assert User.objects.count() == before


def test_a_suspended_person_is_out_at_once(cast, root, browser):
    out = browser(cast.ada)
    root.post("/admin/accounts/user/", {"action": "suspend", "_selected_action": [cast.ada.pk]})
    assert out.get("/queue/").status_code == 302
    root.post("/admin/accounts/user/", {"action": "let_in", "_selected_action": [cast.ada.pk]})
    assert User.objects.get(pk=cast.ada.pk).is_active


def test_an_admin_cannot_lock_the_door_from_outside(root):
    me = User.objects.get(username="rita")
    fields = {"full_name": "", "email": "", "uid": me.uid, "platform_role": "none", "suspended": "on", **NO_ROWS}
    assert root.post(f"/admin/accounts/user/{me.pk}/change/", fields).status_code == 200
    root.post("/admin/accounts/user/", {"action": "suspend", "_selected_action": [me.pk]})
    assert User.objects.get(pk=me.pk).is_admin


def test_a_sign_in_link_is_shown_to_the_admin(cast, root):
    page = root.post("/admin/accounts/user/", {"action": "make_links", "_selected_action": [cast.ada.pk]}, follow=True)
    assert "http://testserver/sign-in/" in page.content.decode()


def test_a_team_never_stands_below_itself(cast, root):
    cast.vision.parent = cast.nlp
    cast.vision.save()
    fields = {"title": "", "gid": cast.nlp.gid, "parent": cast.vision.pk, **NO_ROWS}
    assert root.post(f"/admin/accounts/team/{cast.nlp.pk}/change/", fields).status_code == 200
    assert Team.objects.get(name="nlp").parent is None


def test_a_new_team_gets_the_next_gid(root, settings):
    root.post("/admin/accounts/team/add/", {"name": "speech", "title": "", "gid": "", "parent": "", **NO_ROWS})
    assert Team.objects.get(name="speech").gid >= settings.TESSERA_GID_RANGE[0]


# ---- machines ----


def test_a_node_is_cordoned_with_a_line_of_history(cast, root):
    fields = {"pool": cast.dev.pk, "wanted": "CORDONED", "initial-wanted": "READY"}
    root.post(f"/admin/cluster/node/{cast.node.pk}/change/", fields)
    event = Event.objects.get(kind="node", verb="state")
    assert Node.objects.get().state == "CORDONED" and (event.actor, event.to_state) == ("rita", "CORDONED")


def test_a_form_that_stood_open_does_not_move_a_node_back(cast, root):
    advance([Move(cast.node)], "NOT_READY", actor=Actor("runtime"))
    fields = {"pool": cast.dev.pk, "wanted": "READY", "initial-wanted": "READY"}
    root.post(f"/admin/cluster/node/{cast.node.pk}/change/", fields)
    assert Node.objects.get().state == "NOT_READY"


def test_a_card_gets_its_pool_and_what_is_kept_back(cast, root):
    root.post(f"/admin/cluster/gpu/{cast.gpus[0].pk}/change/", {"pool": cast.train.pk, "margin_mib": "512MiB"})
    card = Gpu.objects.get(pk=cast.gpus[0].pk)
    assert (card.pool, card.margin_mib) == (cast.train, 512)
    assert Event.objects.get(verb="gpu.changed").params["to"] == {"pool": cast.train.pk, "margin_mib": 512}


def test_a_card_cannot_keep_back_everything(cast, root):
    path = f"/admin/cluster/gpu/{cast.gpus[0].pk}/change/"
    answer = root.post(path, {"pool": cast.dev.pk, "margin_mib": "64GiB"})
    assert "Nothing would be left to allocate" in answer.content.decode()


def test_a_pool_takes_its_time_limit_as_people_write_it(cast, root):
    assert change_pool(root, cast.dev, default_max_time_s="18h").status_code == 302
    assert Pool.objects.get(name="dev").default_max_time_s == 64_800


def test_a_pool_keeps_mps_from_its_slices_by_one_box(cast, root):
    for box, allowed in (({}, False), ({"allows_mps": "on"}, True)):
        assert change_pool(root, cast.dev, **box).status_code == 302
        assert Pool.objects.get(name="dev").allows_mps is allowed


def test_the_policy_of_a_pool_is_what_its_next_cycle_goes_by(cast, root):
    assert load_world().policy.pools == (Policy(scores=SCORES),) * 2
    words = {"ageing_s": "2h", "reservations": 5, "arrangement": "spread", "weight_links": 7, "max_grace_s": "1m"}
    words |= {"batch_is_preemptible": "on", "short_first": "on", "longest_s": "30d", "stop_longer": 4, "most_stops": 3}
    assert change_pool(root, cast.dev, **words).status_code == 302  # the box for preemption is not ticked
    scores = spread_scores(weigh_scores(links=7))
    dev = Policy(
        7200.0, 5, preempt=False, short_first=True, longest_s=30 * 86_400, stop_longer=4, most_stops=3, scores=scores
    )
    assert load_world().policy.pools == (dev, Policy(scores=SCORES))
    cast.dev.refresh_from_db()
    assert (cast.dev.high_priority, cast.dev.high_gpu_hours) == ("budget", 40)
    assert cast.dev.batch_is_preemptible


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("ageing_s", "5s", "greater than or equal to 60"),
        ("max_grace_s", "2h", "less than or equal to 3600"),
        ("reservations", "17", "less than or equal to 16"),
        ("longest_s", "5m", "greater than or equal to 3600"),
        ("stop_longer", "0", "greater than or equal to 1"),
        ("stop_longer", "4", "Also let short jobs go first in this pool"),
        ("most_stops", "0", "greater than or equal to 1"),
        ("weight_useful", "1001", "less than or equal to 1000"),
        ("arrangement", "sideways", "not one of the available choices"),
        ("high_priority", "gold", "not one of the available choices"),
        ("high_gpu_hours", "-1", "greater than or equal to 0"),
    ],
)
def test_a_policy_that_cannot_be_kept_is_refused_with_words(cast, root, field, text, words):
    answer = change_pool(root, cast.dev, **{field: text})
    assert answer.status_code == 200 and words in answer.content.decode()
    assert load_world().policy.pools == (Policy(scores=SCORES),) * 2


WINDOW = {"weekdays": ["5", "1"], "begins": "20:00", "ends": "08:00", "zone": "Asia/Shanghai", "holidays": "2027-01-01"}


def test_a_pool_lends_its_cards_by_the_hours_that_an_admin_sets(cast, root):
    fields = {"lender": cast.dev.pk, "borrower": cast.train.pk, **WINDOW}
    assert root.post("/admin/cluster/window/add/", fields).status_code == 302
    window = Window.objects.get()
    assert (window.weekdays, window.begins, window.ends) == ("15", time(20), time(8))
    page = root.get(f"/admin/cluster/window/{window.pk}/change/").content.decode()
    assert re.search(r'value="5"[^>]* checked', page) and not re.search(r'value="2"[^>]* checked', page)
    assert 'value="20:00"' in page and "Monday, Friday" in root.get("/admin/cluster/window/").content.decode()
    assert root.post(f"/admin/cluster/window/{window.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not Window.objects.exists()


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("zone", "Moon", "Enter a time zone"),
        ("holidays", "1.1.2027", "Enter dates like"),
        ("begins", "late", "Enter a valid time"),
        ("weekdays", ["8"], "not one of the available choices"),
        ("borrower", "", "This field is required"),
    ],
)
def test_a_window_that_cannot_be_is_refused_with_words(cast, root, field, text, words):
    fields = {"lender": cast.dev.pk, "borrower": cast.train.pk, **WINDOW, field: text}
    assert words in root.post("/admin/cluster/window/add/", fields).content.decode()
    assert not Window.objects.exists()


def test_an_auditor_sees_windows_and_changes_none(cast, auditor):
    window = Window.objects.create(lender=cast.dev, borrower=cast.train, begins=time(20), ends=time(8))
    assert auditor.get("/admin/cluster/window/").status_code == 200
    assert auditor.get(f"/admin/cluster/window/{window.pk}/change/").status_code == 200
    assert auditor.post(f"/admin/cluster/window/{window.pk}/delete/", {"post": "yes"}).status_code == 403


def test_an_auditor_reads_the_policy_of_a_pool_in_words(cast, auditor):
    page = auditor.get(f"/admin/cluster/pool/{cast.dev.pk}/change/").content.decode()
    assert ">12h<" in page and ">5m<" in page and "fill one machine after another" in page
