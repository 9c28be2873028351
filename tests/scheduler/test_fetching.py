"""Images that machines fetch before a job asks: what is missing, how many at once, and what becomes of each."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from cluster.models import Cached, Node, NodeState
from common.errors import StaleState
from images.models import Fetch, Image
from runtimes.contract.container import ContainerView
from runtimes.contract.errors import Rejected, Unavailable
from runtimes.contract.runtime import Capabilities
from runtimes.images.names import RegistryLogin, make_image_key
from scheduler.inventory import image_prepull
from scheduler.inventory.image_prepull import AGAIN, AT_ONCE, BELIEVED, PATIENCE, build_fetch, prepull_images
from scheduler.models import Lease
from tests import make

pytestmark = pytest.mark.django_db
DIGEST = "sha256:" + "a" * 64
EPOCH = 7


class Engine:
    """Keeps what it is told to start, and shows of each what a test says."""

    def __init__(self, *, containers=True):
        self.capabilities = Capabilities(containers, "told")
        self.specs, self.views, self.stopped, self.refusal = {}, {}, [], None

    def list_containers(self):
        return list(self.views.values())

    def start(self, spec):
        if self.refusal:
            raise self.refusal
        if spec.uuid not in self.specs:
            self.specs[spec.uuid] = spec
            self.show(spec.uuid, "starting")

    def show(self, uuid, phase, **fields):
        self.views[uuid] = ContainerView(uuid, self.specs[uuid].node, phase, **fields)

    def stop(self, uuid, grace_s, *, epoch):
        self.stopped.append((uuid, epoch))

    def forget(self, uuid):
        del self.views[uuid]


@pytest.fixture
def engine(db):
    Lease.objects.create(name="fetch", epoch=EPOCH)
    return Engine()


@pytest.fixture
def cast(db):
    cast = make.cast()
    make.image(make.admin())
    Image.objects.update(prepull=True, digest=DIGEST)
    return cast


def go(engine) -> list[str]:
    """One round; the machines to which it fetches now."""
    prepull_images(engine, EPOCH)
    return sorted(fetch.node.name for fetch in Fetch.objects.filter(ended_at=None).select_related("node"))


def finish(engine, **fields) -> None:
    for uuid in [*engine.views]:
        engine.show(uuid, "exited", **fields)
    prepull_images(engine, EPOCH)


def test_what_a_machine_lacks_is_fetched_once(cast, engine):
    assert go(engine) == go(engine) == ["n1"] and len(engine.specs) == 1
    (spec,) = engine.specs.values()
    assert spec.image == f"docker.io/nlp/train:3@{DIGEST}" and spec.node == "n1" and spec.epoch == EPOCH
    finish(engine, exit_code=0, started_at=timezone.now())
    assert go(engine) == [] and Fetch.objects.get().words == "" and not engine.views


def test_what_is_there_is_not_fetched(cast, engine):
    Cached.objects.create(node=cast.node, kind="image", key=make_image_key(f"nlp/train@{DIGEST}"), bytes=7)
    assert go(engine) == []
    Image.objects.update(digest="sha256:" + "b" * 64)
    assert go(engine) == ["n1"]


@pytest.mark.parametrize(
    "change",
    [
        lambda cast: Image.objects.update(prepull=False),
        lambda cast: Image.objects.update(digest=""),
        lambda cast: Node.objects.update(state=NodeState.CORDONED),
        lambda cast: Node.objects.update(removed_at=timezone.now()),
        lambda cast: make.start(make.job(cast.ada, pool="dev", cpu=16, memory="1GiB")),
    ],
)
def test_nobody_fetches_what_is_not_wanted_or_has_no_place(cast, engine, change):
    change(cast)
    assert go(engine) == []


def test_a_runtime_without_containers_fetches_nothing(cast, engine):
    assert go(Engine(containers=False)) == []


def test_a_few_at_a_time_and_one_on_each(cast, engine):
    for number in range(2, AT_ONCE + 4):
        make.node(f"n{number}", pool=cast.dev)
    make.image(make.admin("other"), alias="second", reference="nlp/second:1")
    Image.objects.update(prepull=True, digest=DIGEST)
    assert len(go(engine)) == AT_ONCE == len(set(go(engine)))
    finish(engine, exit_code=0, started_at=timezone.now())
    assert len(go(engine)) == AT_ONCE


def test_an_image_without_a_shell_comes_as_well(cast, engine):
    go(engine)
    finish(engine, cause="start_failed", detail="no such file")
    assert Fetch.objects.get().words == ""


def test_one_that_fails_says_why_and_is_tried_again_later(cast, engine):
    go(engine)
    (uuid,) = engine.specs
    engine.show(uuid, "starting", cause="image_pull", detail="no space left on device")
    go(engine)
    assert engine.stopped == [(uuid, EPOCH)]
    finish(engine, cause="image_pull", detail="no space left on device")
    assert Fetch.objects.get().words == "no space left on device" and go(engine) == []
    Fetch.objects.update(ended_at=timezone.now() - AGAIN - timedelta(seconds=1))
    assert go(engine) == ["n1"] and Fetch.objects.get().uuid.hex != uuid


def test_what_came_is_believed_for_a_day(cast, engine):
    go(engine)
    finish(engine, exit_code=0, started_at=timezone.now())
    Fetch.objects.update(ended_at=timezone.now() - BELIEVED - timedelta(seconds=1))
    assert go(engine) == ["n1"]


def test_one_that_takes_for_ever_is_ended(cast, engine):
    go(engine)
    Fetch.objects.update(began_at=timezone.now() - PATIENCE - timedelta(seconds=1))
    go(engine)
    assert len(engine.stopped) == 1
    engine.views.clear()
    go(engine)
    assert "Nothing is heard" in Fetch.objects.get().words


def test_what_the_engine_refuses_is_told_and_one_that_is_away_is_asked_again(cast, engine):
    engine.refusal = Unavailable("away")
    assert go(engine) == ["n1"] and not engine.specs
    engine.refusal = None
    assert go(engine) == ["n1"] and len(engine.specs) == 1
    Fetch.objects.all().delete()
    engine.views.clear()
    engine.refusal = Rejected("no such node")
    assert go(engine) == [] and Fetch.objects.get().words == "no such node"


def test_who_led_before_begins_nothing(cast, engine):
    with pytest.raises(StaleState):
        prepull_images(engine, EPOCH - 1)
    assert not Fetch.objects.exists()


def test_a_teams_image_is_fetched_with_the_teams_login(cast):
    image = make.image(cast.bob, cast.nlp, alias="own", reference="registry.corp:5000/nlp/own:1")
    make.login(cast.bob, cast.nlp)
    fetch = Fetch.objects.create(image=image, node=cast.node, uuid=uuid4(), pinned=image.pinned)
    spec = build_fetch(fetch, EPOCH)
    assert spec.gid == cast.nlp.gid and spec.logins == (RegistryLogin("registry.corp:5000", "robot", "s3cret"),)
    fetch.image = make.image(make.admin("other"), alias="all")
    spec = build_fetch(fetch, EPOCH)
    assert (spec.uid, spec.gid, spec.logins) == (image_prepull.NO_USER, image_prepull.NO_USER, ())
