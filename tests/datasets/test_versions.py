"""Versions of datasets: who adds, reads and deletes them, and what becomes of one whose maker was killed."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from common.errors import Conflict, InvalidInput, NameTaken, NotFound, NotPermitted
from datasets import making
from datasets.models import Dataset, DatasetVersion, VersionState
from datasets.services import (
    add_version,
    change_dataset,
    delete_version,
    find_dataset,
    find_store,
    find_version,
    list_datasets,
    restore_version,
    sum_new_bytes,
)
from events.models import Event
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(settings, tmp_path):
    settings.TESSERA_FILES = tmp_path / "files"
    return make.cast()


def add(world, user=None, **fields):
    given = {"team": world.nlp, "name": "corpus", "place": "home", "path": "corpus", **fields}
    return add_version(actor=user or world.ada, **given)


def added(world, **fields):
    """Return a version that is made."""
    version = add(world, **fields)
    make.make_versions()
    version.refresh_from_db()
    return version


def test_a_version_is_taken_by_a_process_and_its_history_tells(world, monkeypatch):
    monkeypatch.setattr("os.nice", lambda more: None)  # this process has other tests to run
    make.files(world.ada, {"a": "1", "b": "22"})
    version = add(world, note="the first")
    assert (version.state, version.number, version.source) == (VersionState.TAKING, 1, "home:corpus")
    ((pk, holder),) = making.claim_versions()
    assert making.claim_versions() == []  # somebody makes it
    call_command("make_dataset_version", str(pk), holder)
    version.refresh_from_db()
    assert (version.state, version.files, version.bytes, version.new_bytes) == (VersionState.READY, 2, 3, 3)
    assert len(version.digest) == 64 and version.ready_at is not None and version.lease_holder == ""
    told = list(Event.objects.filter(kind__startswith="dataset").values_list("verb", "to_state", "actor"))
    assert told == [("version_added", "", "ada"), ("state", "ready", "system")]


def test_numbers_go_on_and_equal_contents_are_kept_once(world):
    make.files(world.ada, {"a": "1" * 100, "b": "2" * 100})
    first = added(world)
    make.files(world.ada, {"b": "3" * 100})
    second = added(world)
    assert (second.number, second.new_bytes, second.bytes) == (2, 100, 200) and first.dataset == second.dataset
    assert sum_new_bytes(world.nlp) == 300


def test_what_cannot_be_taken_says_why(world, settings):
    make.files(world.ada, {"a": "1" * 100})
    with pytest.raises(NotFound):
        add(world, path="nothing")
    with pytest.raises(Conflict, match="dataset_not_a_folder"):
        add(world, path="corpus/a")
    with pytest.raises(InvalidInput):
        add(world, name="Corpus One")
    with pytest.raises(NotPermitted):
        add(world, world.eve)
    with pytest.raises(NotFound):
        add(world, place="team:vision")
    version = add(world)
    (find_store().root / "home" / str(world.ada.uid) / "corpus").rename(find_store().root / "gone")
    make.make_versions()
    version.refresh_from_db()
    assert version.state == VersionState.FAILED and version.error["code"] == "not_found"
    settings.TESSERA_TEAM_BYTES = 50
    make.files(world.ada, {"a": "1" * 100})
    version = added(world)
    assert version.state == VersionState.FAILED and version.error["code"] == "dataset_no_room"
    assert version.error["params"]["team"] == "nlp"


def test_a_version_whose_maker_was_killed_is_made_by_another(world):
    make.files(world.ada, {"a": "1"})
    version = add(world)
    ((_pk, dead),) = making.claim_versions()
    late = timezone.now() - timedelta(seconds=1)
    DatasetVersion.objects.update(lease_until=late)
    make.make_versions()
    making.make_version(version.pk, dead)  # comes too late
    version.refresh_from_db()
    assert version.state == VersionState.READY and version.tries == 2


def test_a_version_that_was_whole_when_its_maker_was_killed_is_found(world, monkeypatch):
    make.files(world.ada, {"a": "1"})
    version = add(world)
    with monkeypatch.context() as patched:
        patched.setattr(making, "_finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            make.make_versions()
    make.files(world.ada, {"a": "changed since"})
    DatasetVersion.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    make.make_versions()
    version.refresh_from_db()
    assert version.state == VersionState.READY and version.bytes == 1


def test_a_version_that_never_gets_done_fails_in_the_end(world):
    make.files(world.ada, {"a": "1"})
    version = add(world)
    DatasetVersion.objects.update(tries=making.MOST_TRIES)
    make.make_versions()
    version.refresh_from_db()
    assert version.state == VersionState.FAILED and version.error["code"] == "taking_failed"


def test_a_maker_that_lost_its_lease_leaves_nothing(world, monkeypatch):
    make.files(world.ada, {"a": "1"})
    version = add(world)
    monkeypatch.setattr(making.taking, "REPORT_EVERY_S", -1)
    ((pk, holder),) = making.claim_versions()
    real = making._renew

    def renew(*args):
        DatasetVersion.objects.update(lease_holder="another")
        real(*args)

    monkeypatch.setattr(making, "_renew", renew)
    making.make_version(pk, holder)
    version.refresh_from_db()
    assert version.state == VersionState.TAKING and not find_store().version(version.dataset.key, 1).exists()


@pytest.mark.parametrize(
    ("share", "teams", "readers"),
    [
        ("private", None, {"ada"}),
        ("team", None, {"ada", "bob"}),
        ("teams", ["vision"], {"ada", "bob", "eve"}),
        ("everybody", None, {"ada", "bob", "eve", "rita"}),
    ],
)
def test_who_reads_it_is_as_it_is_shared(world, share, teams, readers):
    rita = make.admin()
    make.files(world.ada, {"a": "1"})
    version = added(world)
    change_dataset(actor=world.ada, dataset=version.dataset, share=share, teams=teams)
    for person in (world.ada, world.bob, world.eve, rita):
        seen = [row.name for row in list_datasets(person)]
        assert seen == (["corpus"] if person.username in readers else [])
        if not seen:
            with pytest.raises(NotFound):
                find_dataset(person, version.dataset.public_id)


def test_who_left_the_team_reads_no_private_one_any_more(world):
    make.files(world.ada, {"a": "1"})
    version = added(world, share="private")
    world.ada.memberships.all().delete()
    with pytest.raises(NotFound):
        find_dataset(world.ada, version.dataset.public_id)


def test_only_owner_and_leads_change_it_and_a_private_name_stays_taken(world):
    make.files(world.ada, {"a": "1"})
    make.files(world.bob, {"a": "1"})
    dora = make.user("dora", world.nlp)
    dataset = added(world, share="private").dataset
    with pytest.raises(NameTaken):
        add(world, world.bob)
    with pytest.raises(InvalidInput):
        change_dataset(actor=world.ada, dataset=dataset, share="teams", teams=[])
    with pytest.raises(InvalidInput):
        change_dataset(actor=world.ada, dataset=dataset, share="teams", teams=["nobody"])
    with pytest.raises(NotPermitted):
        change_dataset(actor=dora, dataset=dataset, share="everybody")
    assert change_dataset(actor=world.bob, dataset=dataset, share="team", description="ours").description == "ours"
    last = Event.objects.filter(kind="dataset").last()
    assert last.verb == "changed" and last.params["from"] == {"share": "private", "description": ""}


def test_a_deleted_version_is_kept_for_a_week_and_its_number_never_comes_again(world):
    make.files(world.ada, {"a": "1"})
    version = added(world)
    tree = find_store().version(version.dataset.key, 1)
    delete_version(actor=world.ada, version=version)
    making.sweep_versions()
    assert tree.exists() and not list_datasets(world.ada)
    restore_version(actor=world.ada, version=version)
    version = find_version(version.dataset, 1)
    delete_version(actor=world.ada, version=version)
    DatasetVersion.objects.update(deleted_at=timezone.now() - timedelta(days=8))
    making.sweep_versions()
    assert not tree.exists() and sum_new_bytes(world.nlp) == 0
    with pytest.raises(Conflict):
        restore_version(actor=world.ada, version=find_version(version.dataset, 1))
    assert added(world).number == 2 and Dataset.objects.count() == 1


def test_a_sweep_takes_what_no_row_knows_and_spares_the_rest(world):
    make.files(world.ada, {"a": "1"})
    version = added(world)
    store = find_store()
    orphan = store.version(version.dataset.key, 99)
    orphan.mkdir()
    making.sweep_versions()
    assert not orphan.exists() and store.version(version.dataset.key, 1).exists()
