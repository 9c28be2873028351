"""Images on a real node: pinned ones run by their digest, private ones for the team that has a login, slow ones with
words about it.
"""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.models import Node, NodeState
from images.catalogue import update_digest
from images.logins import save_login
from images.models import Fetch, Image, Login
from jobs.models import Job
from jobs.states import TaskState
from portal.wording.image_pulls import pull_hint
from runtimes.contract.node import IMAGE
from runtimes.images.digest_lookup import Reach, Unresolved, find_digest
from runtimes.images.names import RegistryLogin, make_image_key, read_image
from scheduler.inventory.image_prepull import prepull_images
from scheduler.models import Lease
from scheduler.reconcile.task_specs import build_task_spec
from tests import make
from tests.registry_server import serve_registry
from tests.runtimes.kubernetes.world import KubernetesWorld, wait_slowly

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db]
BESIDE_OTHERS = True  # the node is told of registries of its own
USER, PASSWORD = "robot", "s3cret"
HTPASSWD = f"{USER}:$2b$04$fd5hWccXiBph8y3oSkoylOMjb46MlaM2EBB303TQp59kReFSI0DPe\n"


@pytest.fixture(scope="module")
def world(kubeconfig):
    world = KubernetesWorld(kubeconfig, pull="Always")
    yield world
    world.close()


@pytest.fixture(scope="module")
def cluster(kubeconfig, world) -> Path:
    """The folder of bin/cluster, whose node is told of registries, and whose registry serves once more."""
    home = kubeconfig.parent
    if not world.has_kubelet or not (home / "registries").is_dir() or not (home / "bin/registry").exists():
        pytest.skip("NO NODE OF bin/cluster: it cannot be told of a registry.")
    return home


@pytest.fixture(autouse=True)
def reach(cluster, settings) -> Reach:
    """The node's own network may be asked, by plain HTTP."""
    settings.TESSERA_PIN_IMAGES = True
    settings.TESSERA_REGISTRY_PRIVATE = ["10.88.0.0/16"]
    settings.TESSERA_REGISTRY_PLAIN = [each.name for each in (cluster / "registries").iterdir()]
    return Reach(settings.TESSERA_REGISTRY_PRIVATE, plain=settings.TESSERA_REGISTRY_PLAIN)


@contextmanager
def known_to_the_node(cluster: Path, host: str) -> Iterator[None]:
    """As one that speaks plain HTTP: its engine reads this at each pull."""
    hosts = cluster / "registries" / host / "hosts.toml"
    hosts.parent.mkdir()
    try:
        hosts.write_text(f'server = "http://{host}"\n')
        yield
    finally:
        hosts.unlink()
        hosts.parent.rmdir()


@pytest.fixture(scope="module")
def private(cluster, world, tmp_path_factory) -> Iterator[str]:
    """The cluster's registry a second time, which tells nobody anything without a password. Yields its host."""
    folder = tmp_path_factory.mktemp("registry")
    with socket.create_server((read_image(world.options["image"]).registry.partition(":")[0], 0)) as free:
        host = f"{free.getsockname()[0]}:{free.getsockname()[1]}"
    (folder / "htpasswd").write_text(HTPASSWD)
    storage = {"filesystem": {"rootdirectory": f"{cluster}/registry"}, "maintenance": {"readonly": {"enabled": True}}}
    said = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": storage,
        "http": {"addr": host, "secret": "one process needs none to share"},
        "auth": {"htpasswd": {"realm": "here", "path": f"{folder}/htpasswd"}},
    }
    (folder / "settings.json").write_text(json.dumps(said))
    process = subprocess.Popen([cluster / "bin/registry", "serve", folder / "settings.json"], stderr=subprocess.DEVNULL)
    try:
        with known_to_the_node(cluster, host):
            yield host
    finally:
        process.terminate()
        process.wait(10)


def in_registry(world, host: str) -> str:
    """The image of the tests, as it is called there."""
    image = read_image(world.options["image"])
    return f"{host}/{image.repository}:{image.tag}"


def end_of(world, **fields):
    """How a task with this image ends, given up at once where it cannot be had."""
    spec = world.spec("exit 7", **fields)
    world.runtime.start(spec)
    view = wait_slowly(lambda: (seen := world.view(spec.uuid)) and (seen.cause or seen.phase == "exited") and seen)
    if view.phase == "exited":
        return view
    world.runtime.stop(spec.uuid, 10, epoch=spec.epoch)
    return world.until(spec.uuid, "exited")


def test_a_job_by_an_alias_runs_by_its_digest(world, reach):
    cast = make.cast()
    node = make.node(world.node, pool=cast.dev)
    reference = world.options["image"]
    image = make.image(make.admin(), alias="box", reference=reference)
    assert update_digest(image) == "" and (digest := Image.objects.get().digest) == find_digest(
        read_image(reference), None, reach
    )
    job = make.job(cast.ada, image="box", pool="dev", run="exit 7", cpu="0.05", memory="64MiB")
    (task,) = make.start(job, node=node, state=TaskState.ASSIGNED)
    assert Job.objects.get(pk=job.pk).spec["image"] == f"{reference}@{digest}"
    spec = build_task_spec(task)
    world.runtime.start(spec)
    assert world.until(spec.uuid, "exited").exit_code == 7
    (pod,) = world.pods(spec.uuid)
    assert pod["spec"]["containers"][0]["image"] == f"{reference}@{digest}"
    assert pod["status"]["containerStatuses"][0]["imageID"].endswith(digest)


def test_the_node_tells_that_it_holds_what_is_pinned(world, reach):
    image = read_image(world.options["image"])
    pinned = image.at(find_digest(image, None, reach))
    end_of(world, image=pinned)

    def holds():
        node = next(node for node in world.runtime.list_nodes() if node.name == world.node)
        return any((held.kind, held.key) == (IMAGE, make_image_key(pinned)) for held in node.held)

    wait_slowly(holds)


def test_a_private_image_runs_for_the_team_with_the_login_and_not_for_another(world, private, monkeypatch):
    monkeypatch.setattr("runtimes.kubernetes.pods.causes.TRIES_S", 2)
    image, login = in_registry(world, private), RegistryLogin(private, USER, PASSWORD)
    wait_slowly(lambda: is_open(image, login))
    assert end_of(world, image=image, logins=(login,)).exit_code == 7
    refused = end_of(world, image=image, gid=20010)
    assert refused.cause == "image_pull" and "may be private" in pull_hint(refused.detail), refused.detail


def test_a_login_is_rotated_and_taken_away(world, private, monkeypatch):
    monkeypatch.setattr("runtimes.kubernetes.pods.causes.TRIES_S", 2)
    image, good = in_registry(world, private), RegistryLogin(private, USER, PASSWORD)
    wait_slowly(lambda: is_open(image, good))
    assert end_of(world, image=image, logins=(replace(good, password="old"),)).cause == "image_pull"
    assert end_of(world, image=image, logins=(good,)).exit_code == 7
    assert end_of(world, image=image).cause == "image_pull"


def test_an_image_is_fetched_ahead_of_jobs(world, private):
    """With the login that is everybody's, by the loop of the platform."""
    cast, root, login = make.cast(), make.admin(), RegistryLogin(private, USER, PASSWORD)
    make.node(world.node, pool=cast.dev)
    Node.objects.exclude(name=world.node).update(state=NodeState.CORDONED)
    wait_slowly(lambda: is_open(in_registry(world, private), login))
    save_login(actor=root, login=Login(registry=private, user=USER), password=PASSWORD)
    image = make.image(root, alias="box", reference=in_registry(world, private))
    assert update_digest(image) == ""
    Image.objects.update(prepull=True)
    Lease.objects.create(name="fetch", epoch=5)

    def is_done():
        prepull_images(world.runtime, 5)
        return Fetch.objects.exclude(ended_at=None).first()

    assert wait_slowly(is_done).words == ""
    assert not [view for view in world.runtime.list_containers() if view.uuid == Fetch.objects.get().uuid.hex]


def is_open(image: str, login: RegistryLogin) -> bool:
    """Whether the registry is up and lets us in, and nobody else."""
    reach = Reach(("10.88.0.0/16",), plain=(login.registry,))
    try:
        find_digest(read_image(image), login, reach)
    except Unresolved as unresolved:
        assert unresolved.why == "unreachable", unresolved.words
        return False
    with pytest.raises(Unresolved, match="denied"):
        find_digest(read_image(image), None, reach)
    return True


def test_while_an_image_is_fetched_since_when_is_told(world, cluster):
    address = read_image(world.options["image"]).registry.partition(":")[0]
    with serve_registry(address) as registry, known_to_the_node(cluster, registry.host):
        registry.push_image("slow", "1")
        registry.blob_s = 12
        spec = world.spec("true", image=f"{registry.host}/slow:1")
        world.runtime.start(spec)
        view = wait_slowly(lambda: (seen := world.view(spec.uuid)) and seen.fetching_since and seen)
        assert view.phase == "starting"
        world.runtime.stop(spec.uuid, 0, epoch=spec.epoch)


SAYS = {
    "{here}/nothing:1": "no such image",
    "{here}/{repository}:1.35@sha256:" + "a" * 64: "no such image",
    "nohost.invalid/x:1": "There is no registry",
    "{address}:9/x:1": "did not respond",
}


@pytest.mark.parametrize("name", SAYS)
def test_what_cannot_be_had_ends_in_words_with_something_to_do(world, name, monkeypatch):
    monkeypatch.setattr("runtimes.kubernetes.pods.causes.TRIES_S", 2)
    image = read_image(world.options["image"])
    known = {"here": image.registry, "repository": image.repository, "address": image.registry.partition(":")[0]}
    view = end_of(world, image=name.format(**known))
    assert view.cause == "image_pull" and SAYS[name] in pull_hint(view.detail), view.detail
