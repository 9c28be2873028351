"""From a row to a pod and back: the loop of `manage.py watch` on a real API server and a node, fake ones will do."""

import pytest

from jobs.control import stop_job
from jobs.states import TaskState
from quotas.models import Holding
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.watch.reflectors import ClusterView
from scheduler.reconcile.task_specs import build_task_spec
from tests.runtimes.kubernetes.world import pod_path, wait_slowly

pytestmark = [pytest.mark.kubernetes, pytest.mark.django_db]
BESIDE_OTHERS = True
T = TaskState


def test_a_task_is_started_stopped_and_leaves_nothing(scene, placed):
    task = placed("sleep 600")
    scene.until(task, T.RUNNING)
    assert Holding.objects.live().exists() and task.address != ""
    stop_job(actor=task.job.user, job=task.job)
    scene.until(task, T.STOPPED)
    assert task.reason == "stopped_by_user" and not Holding.objects.live().exists()
    wait_slowly(lambda: scene.watch.round(scene.epoch) or not scene.view.list_containers())
    assert all(names.LABEL_FORGOTTEN in pod["metadata"]["labels"] for pod in scene.world.pods(task.uuid.hex))


def test_a_pod_that_is_deleted_by_hand_is_counted_as_lost_once(scene, placed):
    task = placed("sleep 600")
    scene.until(task, T.RUNNING)
    (pod,) = scene.world.pods(task.uuid.hex)
    scene.world.api.call("DELETE", pod_path(pod), {"gracePeriodSeconds": 1})
    scene.until(task, T.FAILED)
    assert task.reason == "container_lost"


def test_a_task_that_was_stopped_before_it_had_a_pod_never_gets_one(scene, placed):
    task = placed("sleep 600")
    stop_job(actor=task.job.user, job=task.job)
    scene.until(task, T.STOPPED)
    scene.runtime.start(build_task_spec(task))
    assert scene.view.list_containers() == [] or scene.view.list_containers()[0].phase == "exited"


def test_the_exit_code_of_a_program(scene, placed, kubelet):
    task = placed("sleep 1; exit 3")
    scene.until(task, T.FAILED)
    assert (task.reason, task.exit_code) == ("exit_nonzero", 3)


def test_a_view_that_is_cut_sees_what_happened_meanwhile(scene, placed):
    """The process that watches dies; the next one begins with a list."""
    task = placed("sleep 600")
    scene.until(task, T.RUNNING)
    scene.view.__exit__()
    (pod,) = scene.world.pods(task.uuid.hex)
    scene.world.api.call("DELETE", pod_path(pod), {"gracePeriodSeconds": 1})
    with ClusterView(scene.runtime) as view:
        scene.view = scene.watch.view = view
        scene.until(task, T.FAILED)
