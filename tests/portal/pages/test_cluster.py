"""Machines, the GPU map and one machine: everybody sees how full they are, a stranger not whose it is."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.models import Gpu, Node, Pool
from cluster.nodes import cordon_node
from events.record_and_publish import SYSTEM, Actor
from events.transitions import Move, advance
from jobs.models import Job
from portal.access.redacted_rows import list_node_views
from portal.pages.cluster import tiles
from portal.pages.cluster.gpu_map import GpuMap
from portal.pages.cluster.machines import build_machines, show_ranges
from portal.pages.cluster.totals import load_totals
from tests import make

pytestmark = pytest.mark.django_db
PAGES = ("/cluster/", "/cluster/gpus/", "/nodes/n1/")


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def look(client):
    def look(person, path):
        client.force_login(person)
        return client.get(path).content.decode()

    return look


def card(person, index=0):
    return build_machines(list_node_views(person))[0].cards[index]


def test_the_machines_are_counted_with_what_is_free(cast, look):
    make.start(make.job(cast.ada, gpu="1/4", pool="dev"))
    page = look(cast.ada, "/cluster/")
    assert "1 machine, 2 GPUs: 1.75 free." in page and "¼ allocated, 1.75 free" in page and "Simulated" in page


def test_a_machine_without_a_gpu_is_said_to_run_on_cpu_only(cast, look):
    Gpu.objects.update(removed_at=timezone.now())
    assert "jobs run on CPU only" in look(cast.ada, "/cluster/")


@pytest.mark.parametrize(("who", "words"), [("ada", "Ask an admin"), ("rita", "bin/start --gpus")])
def test_without_a_machine_the_next_step_is_named(look, settings, who, words):
    settings.TESSERA_EMBEDDED = True
    person = make.admin() if who == "rita" else make.user(who)
    assert words in look(person, "/cluster/")


def test_a_machine_not_seen_for_two_minutes_is_unknown(cast, look):
    Node.objects.update(last_seen_at=timezone.now() - timedelta(seconds=121))
    assert "Unknown" in look(cast.ada, "/cluster/") and "is-stale" in look(cast.ada, "/cluster/gpus/")
    assert "presumed to be running" in look(cast.ada, "/nodes/n1/")


def test_a_machine_seen_just_now_is_not_unknown(cast, look):
    assert "Unknown" not in look(cast.ada, "/cluster/")


@pytest.mark.parametrize("path", PAGES)
def test_a_stranger_is_told_the_owner_and_not_what_it_is(cast, look, path):
    make.start(make.job(cast.ada, gpu="1/4", pool="dev", name="secret-plan", time="1h"))
    page = look(cast.eve, path)
    assert "secret-plan" not in page and "/j/" not in page and (path == "/cluster/" or "ada" in page)


@pytest.mark.parametrize("path", PAGES)
def test_by_policy_a_stranger_finds_no_trace_of_whose_work_it_is(cast, look, path, settings):
    settings.TESSERA_VISIBILITY = "team"
    job = make.job(cast.ada, gpu="1/4", pool="dev", name="secret-plan", time="1h")
    make.start(job)
    page = look(cast.eve, path)
    task = job.newest_tasks.get()
    for secret in ("secret-plan", "ada", job.public_id, "/j/", str(job.uuid), str(task.uuid)):
        assert secret not in page
    assert path == "/cluster/" or "nlp" in page


@pytest.mark.parametrize("path", PAGES[1:])
def test_my_slice_is_mine_and_linked(cast, look, path):
    job = make.job(cast.ada, gpu="1/4", pool="dev", name="llama")
    make.start(job)
    page = look(cast.ada, path)
    assert f'href="/j/{job.public_id}/"' in page and "is-mine" in page and "mine ¼" in page


def test_the_segments_of_a_card_fill_it(cast):
    make.start(make.job(cast.ada, gpu="1/4", pool="dev"))
    make.start(make.job(cast.eve, gpu="1/2", pool="dev"))
    parts = card(cast.ada).segments
    assert [part.kind for part in parts] == ["work", "work", "free"]
    assert abs(sum(part.share for part in parts) - card(cast.ada).view.sellable_mib) <= 40  # thousandths are rounded


def test_a_card_without_a_slice_left_has_a_fragment_and_nothing_free(cast):
    cast.dev.max_slices_per_gpu = 1
    cast.dev.save()
    make.start(make.job(cast.ada, gpu="1/4", pool="dev"))
    assert card(cast.ada).free_milli == 0 and card(cast.ada).segments[-1].kind == "fragment"


def test_a_card_out_of_service_is_a_fault_and_hosts_nothing(cast):
    Gpu.objects.update(healthy=False)
    assert [part.kind for part in card(cast.ada).segments] == ["fault"] and card(cast.ada).fitting_sizes == ()


def test_which_sizes_a_card_could_still_host(cast):
    make.start(make.job(cast.ada, gpu="1/2", pool="dev"))
    assert card(cast.ada, 0).fitting_sizes == ("1/8", "1/4", "1/2", "4GB", "10GB")
    assert card(cast.ada, 1).fitting_sizes == ("1",)  # pool train gives cards out whole


def test_an_instance_of_a_card_is_offered_to_those_alone_who_name_it(cast, look):
    part = {
        "model": "A100-40GB-1g.5gb",
        "product": "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "memory_mib": 4864,
        "uuid": "MIG-2",
    }
    make.gpu(cast.node, pool=cast.dev, index=1205, simulated=False, enforcement="mig", reserved_mib=0, **part)
    Node.objects.update(topology={"links": [["X", "PHB", "SYS"], ["PHB", "X", "SYS"], ["SYS", "SYS", "X"]]})
    shown = card(cast.ada, 2)
    assert (shown.fitting_sizes, shown.view.max_slices, shown.free_milli) == ((), 1, 1000)
    page = look(cast.ada, "/nodes/n1/")
    assert "isolated by hardware (MIG)" in page and '<th scope="row">GPU 2:5</th>' in page
    job = make.job(cast.ada, gpu="A100-40GB-1g.5gb", pool="dev")
    make.start(job, Gpu.objects.get(index=1205))
    page = look(cast.ada, f"/j/{job.public_id}/")
    assert "isolated by hardware (MIG)" in page and "Running on n1, GPU 2:5." in page and "1205" not in page
    assert card(cast.ada, 2).free_milli == 0


def test_a_cordoned_machine_hosts_nothing(cast, look):
    advance([Move(cast.node)], "CORDONED", actor=Actor("rita"))
    assert card(cast.ada).fitting_sizes == () and card(cast.ada).segments[-1].kind == "next"
    assert "n1 accepts no new work: Cordoned" in look(cast.ada, "/nodes/n1/")


def test_the_chosen_size_is_in_the_address(cast, look):
    assert 'value="1/4" checked' in look(cast.ada, "/cluster/gpus/?size=1/4")


def test_the_map_has_a_table_that_says_the_same(cast, look):
    make.start(make.job(cast.ada, gpu="1/4", pool="dev"))
    page = look(cast.eve, "/cluster/gpus/")
    assert "View as table" in page and "25 %" in page and "8.5 GB" in page


def test_a_map_of_many_machines_is_a_bar_for_each_that_leads_to_its_page(cast, look, monkeypatch):
    monkeypatch.setattr(tiles, "MOST_DRAWN", 1)
    make.gpu(make.node("n2", pool=cast.dev))
    make.start(make.job(cast.ada, gpu="1", pool="dev"), cast.gpus[0])
    page = look(cast.ada, "/cluster/gpus/")
    assert 'href="/nodes/n1/" title="1 of 2 cards held"' in page
    assert 'href="/nodes/n2/" title="0 of 1 card held"' in page
    assert 'id="map-n1"' not in page and 'hx-trigger="change"' in page
    Gpu.objects.filter(node=cast.node).update(healthy=False)
    with_room = look(cast.ada, "/cluster/gpus/?size=1")
    assert 'id="map-n2"' in with_room and 'id="map-n1"' not in with_room
    Gpu.objects.update(healthy=False)
    assert "No card has room for one more task of this size now." in look(cast.ada, "/cluster/gpus/?size=1")


@pytest.mark.parametrize("pool", ["", "dev", "train"])
def test_a_map_of_many_machines_counts_as_one_of_few(cast, monkeypatch, pool):
    closed, broken = (make.node(name, pool=cast.dev) for name in ("n2", "n3"))
    for node in (closed, broken):
        make.gpu(node)
    cordon_node(actor=SYSTEM, node=closed)
    Gpu.objects.filter(node=broken).update(healthy=False)
    for gpu, where in (("1/4", "dev"), ("1/2", "dev"), ("1", "train")):
        make.start(make.job(cast.ada, gpu=gpu, pool=where))
    few = GpuMap(cast.ada, pool, "")
    told = few.answer, few.sizes
    monkeypatch.setattr(tiles, "MOST_DRAWN", 0)
    many = GpuMap(cast.ada, pool, "")
    assert many.is_large and not many.machines and (many.answer, many.sizes) == told


def test_the_map_shows_one_pool(cast, look):
    page = look(cast.ada, "/cluster/gpus/?pool=train")
    assert "gpu-GPU-n1-1" in page and "gpu-GPU-n1-0" not in page


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        ("shared account", "jobs share the platform&#x27;s account"),
        ("own uid", "each job has its own account"),
        ("own namespaces", "each job has its own view of files and processes"),
    ],
)
def test_the_node_page_says_how_jobs_are_kept_apart(cast, look, fact, words):
    Node.objects.update(facts={"isolation": fact})
    assert words in look(cast.ada, "/nodes/n1/")


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        ("own", "<dd>each job has its own, closed to this machine and to private networks</dd>"),
        ("Jobs share the network: apt install passt.", "<dd>Jobs share the network: apt install passt.</dd>"),
    ],
)
def test_the_node_page_says_what_network_jobs_have(cast, look, fact, words):
    Node.objects.update(facts={"network": fact})
    assert words in look(cast.ada, "/nodes/n1/")


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        ("task", "<dd>4096 in each task</dd>"),
        ("account", "<dd>4096 for each person, over all tasks</dd>"),
        ("none", "<dd>no limit</dd>"),
        ("95% of something new", "<dd>95% of something new</dd>"),
    ],
)
def test_the_node_page_says_what_limits_the_processes_of_jobs(cast, look, fact, words):
    Node.objects.update(facts={"process_limit": fact, "processes_most": "4096"})
    assert words in look(cast.ada, "/nodes/n1/")


@pytest.mark.parametrize(
    ("mode", "words"), [("watchdog", "not enforced, only watched"), ("simulated", "slices: simulated")]
)
def test_the_node_page_says_how_slices_are_enforced(cast, look, mode, words):
    Gpu.objects.update(enforcement=mode, evidence="Found by looking.")
    page = look(cast.ada, "/nodes/n1/")
    assert words in page and "Found by looking." in page


@pytest.mark.parametrize(
    ("placement", "words"), [("mounts", "covers every copy of the driver"), ("library path", "LD_LIBRARY_PATH")]
)
def test_the_node_page_says_what_a_slice_stops_and_what_not(cast, look, placement, words):
    Gpu.objects.update(enforcement="slice", evidence="Tried.")
    Node.objects.update(facts={"slice_placement": placement})
    page = look(cast.ada, "/nodes/n1/")
    assert "own library, and watched" in page and "bring its own driver" in page and words in page
    assert "Compute is shared in turns, without a limit. None of this has been run on real hardware yet." in page


@pytest.mark.parametrize(("allowed", "said"), [(True, False), (False, True)])
def test_the_node_page_names_the_pools_that_take_turns_where_the_machine_has_mps(cast, look, allowed, said):
    Gpu.objects.update(enforcement="slice", evidence="Tried.")
    Node.objects.update(facts={"compute": "mps"})
    Pool.objects.filter(name="dev").update(allows_mps=allowed)
    page = look(cast.ada, "/nodes/n1/")
    assert "NVIDIA&#x27;s MPS limits each program" in page
    assert ("Slices of cards in dev still take turns without a limit" in page) is said


def test_a_node_without_slices_of_ours_says_nothing_of_them(cast, look):
    Gpu.objects.update(enforcement="watchdog")
    assert "real hardware" not in look(cast.ada, "/nodes/n1/")


def test_the_node_page_shows_links_adapters_and_numa(cast, look):
    links = [["X", "NV2"], ["NV2", "X"]]
    adapter = {"name": "mlx5_0", "numa": 0, "link": "InfiniBand", "rate_gbps": 400, "near": {"0": "PIX", "1": "SYS"}}
    hcas = [adapter | {"active": True}, adapter | {"name": "mlx5_1", "numa": None, "active": False}]
    Node.objects.update(
        topology={"links": links, "hcas": hcas}, numa=[{"id": 0, "cpus": [0, 1, 2, 8], "memory_mib": 65536}]
    )
    page = look(cast.ada, "/nodes/n1/")
    assert "NV2" in page and "NVLink" in page and "0-2, 8" in page
    assert "InfiniBand, 400 Gbit/s" in page and "0 PIX, 1 SYS" in page and "no link" in page


def test_the_node_page_tells_what_happened(cast, look):
    advance([Move(cast.node)], "CORDONED", actor=Actor("rita"))
    assert "running work continues, nothing new starts" in look(cast.ada, "/nodes/n1/")


def test_an_admin_drains_the_machine_on_its_page_and_takes_it_back(cast, client, look, settings):
    client.defaults["HTTP_ORIGIN"] = settings.TESSERA_PUBLIC_URL
    assert "Drain" not in look(cast.ada, "/nodes/n1/")
    assert client.post("/nodes/n1/drain").status_code == 403
    root = make.admin()
    assert "Drain n1?" in look(root, "/nodes/n1/")
    assert client.post("/nodes/n1/drain", {"why": " new fans "}).status_code == 302
    page = look(root, "/nodes/n1/")
    assert "n1 accepts no new work: Draining" in page and "are stopped. new fans" in page
    assert "Back into service" in page and 'data-opens="node-drain"' not in page
    assert client.post("/nodes/n1/uncordon").status_code == 302
    assert Node.objects.get().state == "READY" and client.post("/nodes/n9/drain").status_code == 404


def test_an_unknown_node_is_not_found(cast, client):
    client.force_login(cast.ada)
    assert client.get("/nodes/n9/").status_code == 404


def test_a_name_with_markup_stays_text(cast, look):
    Job.objects.filter(pk=make.job(cast.ada, gpu="1/4", pool="dev").pk).update(name='<img src=x onerror="alert(1)">')
    make.start(Job.objects.get())
    for path in PAGES:
        assert "<img src=x" not in look(cast.ada, path)


def test_numbers_in_a_row_are_spans():
    assert show_ranges([8, 0, 1, 2]) == "0-2, 8"


def test_the_totals_are_the_sums_of_what_each_machine_shows(cast):
    closed, silent, whole = (make.node(name, pool=cast.dev) for name in ("n2", "n3", "n4"))
    for node in (closed, silent, whole, whole):
        make.gpu(node)
    cordon_node(actor=SYSTEM, node=closed)
    Node.objects.filter(pk=silent.pk).update(last_seen_at=timezone.now() - timedelta(hours=1))
    Gpu.objects.filter(node=whole, index=0).update(healthy=False)
    make.maintenance(whole, begins_in_s=-60)
    for gpu in ("1/4", "1/2", "1"):
        make.start(make.job(cast.ada, gpu=gpu, pool="dev" if gpu != "1" else "train"))
    machines, totals = build_machines(list_node_views(cast.ada)), load_totals()
    assert (totals.nodes, totals.ready, totals.gpus) == (4, 2, 6)
    assert totals.gpu_free == sum(machine.free_milli for machine in machines) > 0
    assert totals.gpu_held == sum(machine.held_milli for machine in machines) == 1750
    assert totals.gpu_useless == 1000 * totals.gpus - totals.gpu_free - totals.gpu_held > 0
    assert totals.cpu_milli == sum(machine.node.cpu_sellable_milli for machine in machines)
    assert totals.cpu_held == sum(machine.view.cpu_held_milli for machine in machines) > 0
    assert totals.memory_held == sum(machine.view.memory_held_mib for machine in machines) > 0


def test_many_machines_come_on_pages_and_are_found_by_name(cast, look, monkeypatch):
    monkeypatch.setattr("portal.pages.cluster.views.ON_A_PAGE", 2)
    for name in ("alpha", "beta"):
        make.gpu(make.node(name, pool=cast.dev))
    page = look(cast.ada, "/cluster/")
    assert "3 machines, 4 GPUs" in page and "node-alpha" in page and "node-n1" not in page and "Page 1 of 2" in page
    assert "node-n1" in look(cast.ada, "/cluster/?page=2")
    assert 'href="?pool=dev&amp;page=2"' in look(cast.ada, "/cluster/?pool=dev")  # by the same filter
    found = look(cast.ada, "/cluster/?q=BET&pool=dev")
    assert "node-beta" in found and "node-alpha" not in found and "3 machines, 4 GPUs" in found
    assert "No machine matches" in look(cast.ada, "/cluster/?q=nowhere")
