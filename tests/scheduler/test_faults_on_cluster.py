"""A proxy between us and a real API server loses, delays, repeats and refuses: no work is lost, none is doubled."""

import random
import threading
import time
from uuid import uuid4

import make
import pytest
from django.db import connection

from deploy.cluster import processes
from deploy.cluster.control_plane import start_store_and_api
from deploy.cluster.node import start_node
from deploy.cluster.place import NODE_NAME, Place
from jobs.models import Task
from jobs.states import TASK_FINAL
from runtimes.kubernetes import names
from runtimes.kubernetes import runtime as kubernetes
from runtimes.kubernetes.client import ApiServer
from runtimes.kubernetes.connection import read_kubeconfig
from runtimes.kubernetes.runtime import ALL_NODES, ALL_PODS
from tests.fault_proxy import FaultProxy
from tests.local_cluster import local_place
from tests.runtimes.kubernetes.world import FAKE
from tests.scheduler.lifecycles import an_installation, backlog, judge, submit_all, until

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db(transaction=True), pytest.mark.timeout(3000)]

LAG_S, REQUESTS_PER_S = 60, 20
NODES = 10


@pytest.fixture
def direct(kubeconfig):
    found = read_kubeconfig(kubeconfig)
    with ApiServer(found) as api:
        if not any(FAKE in node["metadata"].get("annotations", {}) for node in api.list_all(ALL_NODES).items):
            pytest.skip("NO FAKE NODES.")
    return found


@pytest.fixture
def ada(db):
    nlp = make.team("nlp")
    make.quota(nlp, make.pool("train"))
    make.pool("dev", shared=True)
    person = make.user("ada", nlp)
    make.limit(person, jobs_waiting=None, jobs_running=None)
    return person


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_what_lies_between_us_and_the_cluster_loses_and_doubles_no_work(direct, ada, monkeypatch, count):
    seed = random.randrange(1000)
    with (
        FaultProxy(direct, seed) as proxy,
        an_installation(direct, proxy.connection, f"f{uuid4().hex[:10]}", monkeypatch, NODES) as ours,
    ):
        began = time.monotonic()
        wanted = submit_all(ada, count, random.Random(seed), over_s=count * 0.3)
        wait_for_the_rest(proxy, began + count + 120)
        sent, faulty_s = sum(proxy.seen.values()), time.monotonic() - began
        proxy.heal()
        patient = {name.removeprefix("t-") for name in proxy.full}  # they wait for half a minute or more, by design
        behind = backlog(ours) - patient
        lag_s = until(lambda: not behind & backlog(ours), LAG_S, lambda: ours.tell(behind & backlog(ours)))
        ended_s = until(lambda: all_ended(wanted), 600 + count, "jobs never ended")
        problems = judge(ours, wanted, proxy.refused)
        leaks = leftovers(ours, monkeypatch)
        told = {
            "seed": seed, "jobs": count, "faulty_s": round(faulty_s), "requests_per_s": round(sent / faulty_s, 1),
            "behind": len(behind), "lag_s": round(lag_s, 1), "rest_s": round(ended_s, 1), "given": dict(proxy.given),
        }  # fmt: skip
        print(told)
    assert not problems and not ours.errors and not leaks, (told, problems[:10], ours.errors[:10], leaks)
    assert sent / faulty_s <= REQUESTS_PER_S, told
    assert not proxy.missing(), (proxy.missing(), told)


@pytest.mark.slow
def test_the_clusters_own_parts_restart_in_turn_and_no_work_is_lost_or_doubled(direct, kubeconfig, ada, monkeypatch):
    """etcd, API server and kubelet are killed and started again, twice each, while jobs come and end."""
    place = local_place()
    if kubeconfig != place.kubeconfig:
        pytest.skip("KUBECONFIG names another cluster than bin/cluster's")
    with an_installation(direct, direct, f"r{uuid4().hex[:10]}", monkeypatch, NODES, (NODE_NAME,)) as ours:
        killer = threading.Thread(target=restart_in_turn, args=(place, 2), daemon=True)
        killer.start()
        wanted = submit_all(ada, 150, random.Random(7), over_s=90)
        killer.join(600)
        behind = backlog(ours)
        lag_s = until(lambda: not behind & backlog(ours), LAG_S, lambda: ours.tell(behind & backlog(ours)))
        ended_s = until(lambda: all_ended(wanted), 600, "jobs never ended")
        problems = judge(ours, wanted, set())
        leaks = leftovers(ours, monkeypatch)
        told = {"behind": len(behind), "lag_s": round(lag_s, 1), "rest_s": round(ended_s, 1)}
        print(told)
    assert not killer.is_alive() and not problems and not ours.errors and not leaks, (
        told,
        problems,
        ours.errors,
        leaks,
    )


def restart_in_turn(place: Place, times: int) -> None:
    parts = {"etcd": start_store_and_api, "kube-apiserver": start_store_and_api, "kubelet": start_node}
    for part, start in list(parts.items()) * times:
        time.sleep(5)
        processes.kill([processes.find_parts(place)[part]])
        time.sleep(3)
        start(place)


def all_ended(wanted) -> bool:
    return not Task.objects.filter(job__in=wanted).exclude(state__in=TASK_FINAL).exists()


def wait_for_the_rest(proxy: FaultProxy, until_s: float) -> None:
    """Until every fault came, or nothing is left that it could befall."""
    tasks = Task.objects.exclude(state__in=TASK_FINAL)
    while proxy.missing() and tasks.exists() and time.monotonic() < until_s:
        time.sleep(0.5)


def leftovers(ours, patch) -> list[str]:
    """What is still there after everything was forgotten and swept away."""
    mark = f"{names.LABEL_INSTALL}={ours.install}"
    patch.setattr(kubernetes, "KEPT_HOURS", -2)
    until(lambda: not ours.api.list_all(ALL_PODS, labels=ours.clean.selector).items, 120, "ends are not forgotten")
    ours.view.tidy()
    list_left = lambda: ours.api.list_all(ALL_PODS, labels=mark).items  # noqa: E731
    until(lambda: not list_left(), 60, "pods are left")
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM quotas_holding WHERE released_at IS NULL")
        held = cursor.fetchone()[0]
    return [f"{held} holdings are live"] if held else []
