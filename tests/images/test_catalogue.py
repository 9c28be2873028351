"""A name in a job file becomes the bytes that run, at every submit and for every attempt."""

import pytest

from common.errors import InvalidInput, NotPermitted
from images import catalogue
from images.catalogue import (
    delete_image,
    filter_visible_images,
    pin_image,
    resolve_alias,
    save_image,
    update_all_digests,
)
from images.logins import save_login
from images.models import Image, Login
from jobs.control import retry_job
from jobs.copying.copies import build_rerun
from jobs.jobfile.parse import parse_spec
from jobs.models import Job, JobKind
from jobs.states import TaskState
from jobs.submit import submit_job
from scheduler.reconcile.task_specs import build_task_spec
from tests import make
from tests.registry_server import serve_registry

pytestmark = pytest.mark.django_db
NEW, OLD = b'{"new": 1}', b'{"old": 1}'
ADA = ("ada", "s3cret")


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def registry(settings):
    settings.TESSERA_PIN_IMAGES = True
    with serve_registry() as server:
        settings.TESSERA_REGISTRY_PLAIN = [server.host]
        catalogue._rests_until.clear()
        yield server


def line(registry, alias="torch", name="nlp/train:3", team=None, **fields) -> Image:
    """A line of the catalogue, looked up."""
    image = Image(alias=alias, reference=f"{registry.host}/{name}", team=team, **fields)
    save_image(actor=make.admin(f"root{Image.objects.count()}"), image=image)
    update_all_digests()
    image.refresh_from_db()
    return image


def image_of(job: Job) -> str:
    return Job.objects.get(pk=job.pk).spec["image"]


def test_an_alias_is_its_digest_at_submit_and_at_every_attempt(cast, registry):
    old = registry.push("nlp/train", "3", OLD)
    line(registry)
    job = make.job(cast.ada, image="torch", pool="dev")
    make.start(job)
    make.end(job, TaskState.FAILED, "exit_nonzero", 1)
    registry.push("nlp/train", "3", NEW)
    update_all_digests()
    retry_job(actor=cast.ada, job=Job.objects.get(pk=job.pk))
    assert image_of(job) == f"{registry.host}/nlp/train:3@{old}"
    assert old not in image_of(make.job(cast.ada, image="torch", pool="dev"))


def test_a_submit_by_alias_asks_nobody_so_a_registry_may_be_away(cast, registry):
    digest = registry.push("nlp/train", "3", OLD)
    line(registry)
    asked = len(registry.asked)
    registry.manifests.clear()
    assert image_of(make.job(cast.ada, image="torch", pool="dev")).endswith(digest)
    assert len(registry.asked) == asked


def test_the_last_digest_stays_where_the_registry_has_none_any_more(registry):
    digest = registry.push("nlp/train", "3", OLD)
    image = line(registry)
    registry.manifests.clear()
    update_all_digests()
    image.refresh_from_db()
    assert (image.digest, image.problem, image.problem_words) == (digest, "not_found", "manifest unknown")


def test_another_reference_is_another_digest(registry):
    registry.push("nlp/train", "3", OLD)
    image = line(registry)
    image.reference = f"{registry.host}/nlp/other:1"
    save_image(actor=make.admin(), image=image)
    assert Image.objects.get().digest == ""


def test_a_tag_is_asked_for_when_it_is_submitted(cast, registry):
    digest = registry.push("nlp/own", "1", NEW)
    job = make.job(cast.ada, image=f"{registry.host}/nlp/own:1", pool="dev")
    assert image_of(job) == f"{registry.host}/nlp/own:1@{digest}"


def test_a_role_runs_its_own_image_and_the_others_the_jobs(cast, registry):
    old, new = registry.push("nlp/train", "3", OLD), registry.push("nlp/own", "1", NEW)
    line(registry)
    roles = {"head": {"run": "a", "image": f"{registry.host}/nlp/own:1"}, "worker": {"run": "b"}}
    job = make.job(cast.ada, image="torch", pool="dev", roles=roles)
    specs = {task.role: build_task_spec(task) for task in make.start(job)}
    assert {role: spec.image for role, spec in specs.items()} == {
        "head": f"{registry.host}/nlp/own:1@{new}",
        "worker": f"{registry.host}/nlp/train:3@{old}",
    }
    copied = build_rerun(cast.ada, job, exact=False)
    assert copied.roles[0].image == f"{registry.host}/nlp/own:1"


def test_a_roles_image_is_refused_by_its_own_field(cast, settings):
    settings.TESSERA_IMAGES = "catalogue"
    with pytest.raises(InvalidInput) as refused:
        make.job(cast.ada, pool="dev", roles={"head": {"run": "a", "image": "busybox"}})
    assert refused.value.errors[0].pointer == "/roles/head/image"


def test_a_tag_that_nobody_tells_of_stays_as_it_is(cast, registry):
    text = f"{registry.host}/nlp/none:1"
    assert image_of(make.job(cast.ada, image=text, pool="dev")) == text


def test_a_registry_that_is_away_is_left_alone_for_a_while(cast, registry, monkeypatch):
    with serve_registry() as gone:
        pass
    text = f"{gone.host}/nlp/own:1"
    assert pin_image(cast.nlp, text) == text
    monkeypatch.setattr(catalogue, "find_digest", lambda *_: pytest.fail("asked again"))
    assert pin_image(cast.nlp, text) == text


def test_where_only_the_catalogue_is_allowed_another_image_is_refused_with_what_there_is(cast, registry, settings):
    settings.TESSERA_IMAGES = "catalogue"
    registry.push("nlp/train", "3", OLD)
    image = line(registry)
    for text in ("torch", image.reference, image.pinned):
        assert resolve_alias(cast.nlp, text, "/image") == image.pinned
    for text in ("busybox", image.reference + "1", image.pinned[:-1] + "0"):
        with pytest.raises(InvalidInput) as refused:
            make.job(cast.ada, image=text, pool="dev")
        assert refused.value.errors[0].code == "not_in_catalogue"
        assert refused.value.errors[0].params["known"] == "torch"


def test_the_installations_image_for_notebooks_needs_no_line_and_nobody_is_asked_for_it(cast, registry, settings):
    settings.TESSERA_IMAGES, settings.TESSERA_NOTEBOOK_IMAGE = "catalogue", f"{registry.host}/nlp/lab:1"
    registry.push("nlp/lab", "1", NEW)
    spec = parse_spec({"run": "true", "pool": "dev", "image": settings.TESSERA_NOTEBOOK_IMAGE})
    kind = JobKind.INTERACTIVE
    job = submit_job(user=cast.ada, spec=spec, check=lambda draft: None, containers=True, kind=kind)
    assert image_of(job) == settings.TESSERA_NOTEBOOK_IMAGE and registry.asked == []


def test_a_teams_own_alias_goes_before_that_for_all_and_is_nobody_elses(cast, registry):
    for name in ("a:1", "b:1"):
        registry.push(name[0], "1", name.encode())
    line(registry, name="a:1")
    line(registry, name="b:1", team=cast.nlp)
    line(registry, alias="secret", name="b:1", team=cast.nlp)
    assert "/b:1@" in resolve_alias(cast.nlp, "torch", "/image")
    assert "/a:1@" in resolve_alias(cast.vision, "torch", "/image")
    assert resolve_alias(cast.vision, "secret", "/image") == "secret"
    assert [image.alias for image in filter_visible_images(cast.eve)] == ["torch"]


def test_a_lead_keeps_the_teams_lines_and_no_others(cast):
    own = save_image(actor=cast.bob, image=Image(alias="x", reference="a:1", team=cast.nlp))
    for_all = save_image(actor=make.admin(), image=Image(alias="y", reference="a:1"))
    stolen = Image.objects.get(pk=own.pk)
    stolen.team = cast.vision
    for actor, image in ((cast.ada, own), (cast.eve, own), (cast.bob, for_all), (cast.bob, stolen)):
        with pytest.raises(NotPermitted):
            save_image(actor=actor, image=image)
        with pytest.raises(NotPermitted):
            delete_image(actor=actor, image=image)
    delete_image(actor=cast.bob, image=own)
    assert Image.objects.get().alias == "y"


@pytest.mark.parametrize("by_token", [True, False])
def test_a_private_image_is_asked_for_with_the_teams_login(cast, registry, by_token):
    digest = registry.push("nlp/own", "1", NEW)
    registry.login, registry.by_token = ADA, by_token
    login = Login(registry=registry.host, user=ADA[0], team=cast.nlp)
    save_login(actor=cast.bob, login=login, password=ADA[1])
    text = f"{registry.host}/nlp/own:1"
    assert pin_image(cast.nlp, text) == f"{text}@{digest}"
    assert pin_image(cast.vision, text) == text
