"""Events as sentences: every kind that is recorded has one, and none ever fails."""

import pytest

from events.models import Event
from portal.wording.events import SENTENCES, describe_event
from tests import make


@pytest.mark.parametrize(("kind", "about"), sorted(SENTENCES))
def test_a_sentence_is_made_even_without_any_value(kind, about):
    assert describe_event(Event(kind=kind, verb=about.partition(".")[0] if kind == "job" else about, params={}))


def test_what_has_no_sentence_is_called_as_programs_call_it():
    assert describe_event(Event(kind="node", verb="node.painted", params={"gpus": 2})) == "node.painted"


@pytest.mark.django_db
def test_a_placed_task_is_told_with_its_node_and_gpus():
    job = make.job(make.cast().ada, pool="dev", gpu="1/4")
    make.start(job)
    placed = Event.objects.get(kind="task", to_state="ASSIGNED")
    assert describe_event(placed, alone=True) == "Task main was placed on n1 (GPU 0)"
    assert describe_event(placed) == "Task main.0 was placed on n1 (GPU 0)"


def test_a_machine_out_of_service_is_told_with_the_reason():
    row = Event(kind="node", verb="state", to_state="CORDONED", params={"why": "new 100 % fans"})
    assert describe_event(row) == "Cordoned: running work continues, nothing new starts. new 100 % fans"


@pytest.mark.django_db
def test_a_task_without_a_gpu_names_none():
    make.start(make.job(make.cast().ada, pool="dev", gpu=0))
    assert (
        describe_event(Event.objects.get(kind="task", to_state="ASSIGNED"), alone=True) == "Task main was placed on n1"
    )
