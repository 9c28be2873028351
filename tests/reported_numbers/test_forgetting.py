"""A task is forgotten only once the rest of its numbers is stored."""

import pytest

from jobs.models import Task
from reported_numbers.models import Series
from runtimes.contract.errors import Unavailable
from runtimes.contract.runtime import Capabilities
from scheduler.reconcile.actions import FencedAction, run_action, run_actions
from scheduler.reconcile.compare import Forget
from tests.reported_numbers.test_collecting import Files, running_tasks

pytestmark = pytest.mark.django_db


class Runtime(Files):
    capabilities = Capabilities(containers=False, name="fake")

    def __init__(self, folder):
        super().__init__(folder)
        self.forgotten = []

    def forget(self, uuid, *, mask=None):
        (self.folder / uuid).unlink(missing_ok=True)
        self.forgotten.append(uuid)


@pytest.fixture
def runtime(tmp_path):
    return Runtime(tmp_path)


def forget(task: Task) -> FencedAction:
    return FencedAction(Forget(task.uuid.hex), 1)


def test_its_last_numbers_are_stored_first(runtime):
    reporting, silent = running_tasks(2)
    runtime.add(reporting, '{"loss": 1}\n{"loss": 2}')
    run_actions([forget(reporting), forget(silent)], runtime)
    assert Series.objects.get().count == 2
    assert set(runtime.forgotten) == {reporting.uuid.hex, silent.uuid.hex}


def test_it_waits_for_a_later_round_while_they_cannot_be_read(runtime, caplog):
    (task,) = running_tasks(1)
    runtime.add(task, '{"loss": 1}\n')
    runtime.away = True
    run_actions([forget(task)], runtime)
    assert not runtime.forgotten and "wait" in caplog.text
    with pytest.raises(Unavailable):
        run_action(forget(task), runtime)
    runtime.away = False
    run_actions([forget(task)], runtime)
    assert Series.objects.get().count == 1 and runtime.forgotten == [task.uuid.hex]
