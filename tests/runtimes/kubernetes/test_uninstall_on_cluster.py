"""`manage.py uninstall_cluster`: what an installation made goes, on request and with words, and nothing else does."""

from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from runtimes.contract.runtime import Capabilities
from runtimes.kubernetes.cluster.uninstall import ClusterBelongings
from runtimes.kubernetes.pods import names
from scheduler.management.commands import uninstall_cluster
from tests.runtimes.kubernetes.world import KubernetesWorld, world_with_files

pytestmark = [pytest.mark.kubernetes, pytest.mark.usefixtures("kubelet"), pytest.mark.timeout(300, func_only=True)]
BESIDE_OTHERS = True


@pytest.fixture
def world(kubeconfig, monkeypatch):
    """Each test ends what it has."""
    world = KubernetesWorld(kubeconfig)
    monkeypatch.setattr(uninstall_cluster, "get_runtime", lambda: world.runtime)
    yield world
    world.close()


def namespaces(world) -> set[str]:
    mark = f"{names.LABEL_INSTALL}={world.runtime.config.install}"
    return {each["metadata"]["name"] for each in world.api.list_all("/api/v1/namespaces", labels=mark).items}


def test_it_says_what_it_takes_asks_for_the_name_and_takes_it(world, elsewhere, capsys, monkeypatch):
    install = world.runtime.config.install
    busy, ended = world.spec("sleep 600"), world.spec("true")
    for spec in (busy, ended):
        world.runtime.start(spec)
    world.until(busy.uuid, "running")
    world.until(ended.uuid, "exited")
    team = names.name_team_namespace(install, 20000)
    call_command("uninstall_cluster", "--dry-run")
    said = capsys.readouterr().out
    assert f"{team}: 1 tasks that run or start, 1 that have ended" in said and elsewhere not in said

    monkeypatch.setattr("builtins.input", lambda prompt: "tessera")
    with pytest.raises(CommandError, match="Nothing was removed"):
        call_command("uninstall_cluster")
    assert namespaces(world) == {team, names.name_tombstone_namespace(install), elsewhere}
    assert world.view(busy.uuid).phase == "running"

    monkeypatch.setattr("builtins.input", lambda prompt: install)
    call_command("uninstall_cluster")
    assert namespaces(world) == {elsewhere} and world.pods(busy.uuid) == []
    call_command("uninstall_cluster", "--yes", install)
    assert "has nothing there" in capsys.readouterr().out


def test_one_that_was_made_anew_meanwhile_stays(world):
    world.runtime.start(world.spec("true"))
    belongings = ClusterBelongings(world.runtime)
    before = belongings.list_belongings()
    for one in before:
        stale = type(one)(one.name, str(uuid4()), one.words)
        belongings.remove(stale)
        assert belongings.is_gone(stale)
    assert belongings.list_belongings()[0].uid == before[0].uid
    assert all("deletionTimestamp" not in pod["metadata"] for one in before for pod in belongings._pods(one.name))


def test_where_files_may_go_with_it_that_has_to_be_said(kubeconfig, monkeypatch, capsys):
    with world_with_files(kubeconfig) as world:
        monkeypatch.setattr(uninstall_cluster, "get_runtime", lambda: world.runtime)
        spec = world.spec("true")
        world.runtime.start(spec)
        world.until(spec.uuid, "exited")
        with pytest.raises(CommandError, match="--with-files"):
            call_command("uninstall_cluster", "--yes", world.runtime.config.install)
        assert "BEWARE: its volume" in capsys.readouterr().out and world.view(spec.uuid).phase == "exited"


def test_a_runtime_that_leaves_nothing_says_so(monkeypatch):
    class Bare:
        capabilities = Capabilities(False, "local")

    monkeypatch.setattr(uninstall_cluster, "get_runtime", Bare)
    with pytest.raises(CommandError, match="outside of its data directory"):
        call_command("uninstall_cluster")
