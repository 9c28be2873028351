"""Each write of the console has its operation in the API, and leaves a line in the audit log."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.announcements import save_announcement
from accounts.models import Announcement
from cluster.agents import check_agents
from cluster.services import save_pool
from events.models import Event
from monitoring.models import AlertRule, IdleRule
from portal.access.admin_lists import filter_audit
from portal.pages.urls import urlpatterns
from quotas.services import save_quota
from tests import make
from tests.portal.test_doors import DOORS

pytestmark = pytest.mark.django_db
OPENAPI = Path(__file__).parents[2] / "docs/openapi.json"


@dataclass(frozen=True)
class Write:
    """operation: of the API, which does the same. of: the address's arguments. sends: the form, from the world."""

    operation: str
    sends: Callable[[SimpleNamespace], dict[str, Any]] = lambda world: {}
    of: Callable[[SimpleNamespace], dict[str, Any]] = lambda world: {}


def named(value: str) -> Callable[[SimpleNamespace], dict[str, Any]]:
    return lambda world: {"name": value}


def fill_pool(world: SimpleNamespace) -> dict[str, Any]:
    """Return the form of pool dev as a browser sends it, with a change."""
    page = world.client.get(reverse("console_pool", kwargs={"name": "dev"}))
    values = {bound.html_name: bound.value() for bound in page.context["form"] if bound.value() not in (None, False)}
    return values | {"seen": page.context["seen"], "reservations": "4"}


def plan(route: str, of: Callable[[SimpleNamespace], dict[str, Any]]) -> Callable[[SimpleNamespace], dict[str, Any]]:
    """Return what the second step of a maintenance sends, after a look at what it closes."""

    def look(world: SimpleNamespace) -> dict[str, Any]:
        begins = timezone.localtime() + timedelta(hours=2)
        times = {"begins_at": begins, "ends_at": begins + timedelta(hours=3)}
        given = {name: f"{at:%Y-%m-%dT%H:%M}" for name, at in times.items()} | {"nodes": ["n1"], "why": "fans"}
        answer = world.client.post(reverse(route, kwargs=of(world)), given)
        return given | {"seen": answer.context["form"].asked}

    return look


def lend(world: SimpleNamespace) -> dict[str, Any]:
    times = {"weekdays": ["1"], "begins": "21:00", "ends": "07:00", "zone": "UTC", "holidays": ""}
    return {"lender": world.dev.pk, "borrower": world.train.pk} | times


def of_window(world: SimpleNamespace) -> dict[str, Any]:
    return {"window_id": world.window.pk}


def of_maintenance(world: SimpleNamespace) -> dict[str, Any]:
    return {"maintenance_id": world.closed.pk}


def of_idle_rule(world: SimpleNamespace) -> dict[str, Any]:
    return {"rule_id": world.idle_rule.pk}


def of_alert_rule(world: SimpleNamespace) -> dict[str, Any]:
    return {"rule_id": world.alert_rule.pk}


def fill_alert_rule(world: SimpleNamespace) -> dict[str, Any]:
    looks = {"subject": "card", "metric": "power_w", "comparison": "above", "threshold": "700"}
    times = {"for_s": "60", "clear_for_s": "60", "severity": "warning"}
    return {"name": "hungry", "audience": ["admin"], **looks, **times}


WRITES = {
    "console_pool_new": Write("create_pool", lambda world: {"name": "large", "description": ""}),
    "console_pool": Write("change_pool", fill_pool, named("dev")),
    "console_pool_undo": Write("change_pool", of=lambda world: {"name": "dev", "event_id": world.policy.pk}),
    "console_window_new": Write("create_window", lend),
    "console_window": Write("change_window", lend, of_window),
    "console_window_remove": Write("delete_window", of=of_window),
    "console_maintenance_new": Write("plan_maintenance", plan("console_maintenance_new", lambda world: {})),
    "console_maintenance_one": Write(
        "change_maintenance", plan("console_maintenance_one", of_maintenance), of_maintenance
    ),
    "console_maintenance_end": Write("end_maintenance", of=of_maintenance),
    "console_approve": Write("approve_agent", lambda world: {"seen": world.seen}, named("g1")),
    "console_refuse": Write("revoke_agent", of=named("g1")),
    "console_machine_invite": Write("invite_agent", lambda world: {"node": "g2"}),
    "console_machine_service": Write("drain_node", lambda world: {"node": ["n1"], "to": "drain", "why": "fans"}),
    "console_image_delete": Write("delete_image", of=lambda world: {"image_id": world.image.pk}),
    "console_images": Write("create_image", lambda world: {"alias": "jax", "reference": "nlp/jax:1"}),
    "console_image": Write(
        "change_image",
        lambda world: {"alias": "torch2", "reference": "nlp/t:3"},
        lambda world: {"image_id": world.image.pk},
    ),
    "console_login_add": Write(
        "create_registry_login", lambda world: {"registry": "other.corp", "user": "robot", "password": "s3cret"}
    ),
    "console_login": Write(
        "change_registry_login", lambda world: {"user": "robot2"}, lambda world: {"login_id": world.login.pk}
    ),
    "console_login_delete": Write("delete_registry_login", of=lambda world: {"login_id": world.login.pk}),
    "console_invite": Write("invite_person", lambda world: {"emails": "", "team": world.nlp.pk, "role": "member"}),
    "console_person_new": Write(
        "create_person", lambda world: {"username": "nina", "team": world.nlp.pk, "role": "member"}
    ),
    "console_person": Write(
        "change_person", lambda world: {"full_name": "Ada L", "platform_role": "none"}, named("ada")
    ),
    "console_person_link": Write("create_sign_in_link", of=named("ada")),
    "console_access": Write("change_person", lambda world: {"to": "suspended"}, named("ada")),
    "console_membership": Write("change_member", lambda world: {"team": "nlp", "role": "lead"}, named("ada")),
    "console_limit": Write("change_limit", lambda world: {"gpu_milli": "2"}, named("ada")),
    "console_teams": Write("create_team", lambda world: {"name": "speech"}),
    "console_team": Write("change_team", lambda world: {"title": "Languages"}, named("nlp")),
    "console_member_add": Write("add_member", lambda world: {"person": "eve", "role": "member"}, named("nlp")),
    "console_quotas": Write("save_quotas", lambda world: {world.field: "1", f"was:{world.field}": "0.5"}),
    "console_quota_until": Write(
        "change_quota", lambda world: {"do": "keep"}, lambda world: {"quota_id": world.lent.pk}
    ),
    "console_quota_undo": Write("change_quota", of=lambda world: {"event_id": world.saved.pk}),
    "console_idle_rule_new": Write("save_idle_rule", lambda world: {"kind": "batch", "note_min": "20", "then": "tell"}),
    "console_idle_rule": Write("save_idle_rule", lambda world: {"note_min": "25", "then": "tell"}, of_idle_rule),
    "console_idle_rule_delete": Write("delete_idle_rule", of=of_idle_rule),
    "console_alert_rule_new": Write("create_alert_rule", fill_alert_rule),
    "console_alert_rule": Write("change_alert_rule", fill_alert_rule, of_alert_rule),
    "console_alert_rule_switch": Write("change_alert_rule", lambda world: {"to": "off"}, of_alert_rule),
    "console_alert_rule_delete": Write("delete_alert_rule", of=of_alert_rule),
    "console_announcements": Write("make_announcement", lambda world: {"text": "Fans", "tone": "plain"}),
    "console_announcement_end": Write("end_announcement", of=lambda world: {"announcement_id": world.told.pk}),
}
"""{route of the console: its write}. A new one that changes something belongs here."""


@pytest.fixture
def world(built, settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"
    client = Client(headers={"Origin": "http://testserver"})
    client.force_login(built.root)
    return SimpleNamespace(**vars(built), client=client)


@pytest.fixture(scope="module")
def built(rows_of_file):
    cast, root = make.cast(), make.admin()
    cast.dev.reservations = 3
    save_pool(actor=root.as_actor, pool=cast.dev)
    agent = make.agent("g1", make.report(make.reported_gpu(7)))
    lent = cast.vision.quotas.get(pool=cast.dev)
    lent.gpu_milli_limit = 500
    save_quota(actor=root, quota=lent, until=timezone.now() + timedelta(days=1))
    quota = cast.nlp.quotas.get(pool=cast.dev)
    for amount in (250, 500):
        quota.gpu_milli_guarantee = amount
        save_quota(actor=root, quota=quota)
    return SimpleNamespace(
        root=root,
        nlp=cast.nlp,
        dev=cast.dev,
        train=cast.train,
        lent=lent,
        policy=Event.objects.get(kind="pool"),
        window=make.window(cast.dev, cast.train),
        alert_rule=AlertRule.objects.create(
            name="own", subject="card", metric="power_w", comparison="above", threshold=1, audience=["admin"]
        ),
        idle_rule=IdleRule.objects.create(pool=cast.dev),
        closed=make.maintenance(cast.node, begins_in_s=3600),
        seen=check_agents([agent])[0].seen,
        image=make.image(root),
        login=make.login(root),
        field=f"guarantee:{cast.nlp.pk}:{cast.dev.pk}",
        saved=Event.objects.filter(kind="quota").order_by("id").last(),
        told=save_announcement(actor=root, announcement=Announcement(text="Soon", begins_at=timezone.now())),
    )


def list_console_routes() -> set[str]:
    return {one.name for one in urlpatterns if one.name.startswith("console")}


def test_every_write_of_the_console_is_known_here():
    routes = list_console_routes()
    assert len(routes) > 20
    assert set(WRITES) == {name for name, method in DOORS if method == "POST" and name in routes}


def test_every_operation_is_one_of_the_api():
    paths = json.loads(OPENAPI.read_text())["paths"]
    known = {one.get("operationId") for methods in paths.values() for one in methods.values()}
    assert {write.operation for write in WRITES.values()} - known == set()


@pytest.mark.parametrize("name", sorted(WRITES))
def test_a_write_leaves_an_audit_line(world, name):
    before = list(filter_audit().values_list("pk", flat=True)[:1])
    answer = world.client.post(reverse(name, kwargs=WRITES[name].of(world)), WRITES[name].sends(world))
    assert answer.status_code in {200, 302}, answer.content.decode()
    lines = filter_audit().filter(pk__gt=max(before, default=0))
    assert {line.actor for line in lines} == {"rita"}
