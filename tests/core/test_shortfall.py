"""Why a job does not fit: one true sentence for the whole job first, in the numbers that pages show beside it."""

from random import Random

import numpy as np
import pytest

from jobs.reason_messages import describe_wait
from scheduler.core.model.snapshot import Snapshot
from scheduler.core.model.types import MaintenanceWindow, Refusal
from tests.core.test_cycle import cycle
from tests.worlds import wants, world

CARDS = "V100-32GB"
HOLDS = ("1", "3/4", "1/2", "1/4", "1/8", "1GB", "4GB")
ASKS = ("1/8", "1/4", "1/2", "1", "2", "4GB", "20GB")


def reasons_of(text: str, *wishes) -> list[Refusal]:
    return cycle(world(text, *wishes)).refusals[1]


def say(refusal: Refusal) -> str:
    return describe_wait({"code": refusal.reason, "params": refusal.params})


def test_a_gang_is_told_of_the_gang_before_one_of_its_tasks():
    first, second = reasons_of(f"n1: {CARDS}x3 | bob holds 1 | bob holds 1 | bob holds 1", wants("ada", "1", gang=3))
    assert first == Refusal("gang_incomplete", {"have": 0, "need": 3})
    assert say(first) == "not all 3 tasks fit now; all of them must start together"
    assert say(second).startswith("for one of its tasks: not enough whole GPUs are free on one node: 1 needed")


def test_of_which_some_tasks_fit_is_told_how_many():
    (reason,) = reasons_of(f"n1: {CARDS}x3 | bob holds 1", wants("ada", "1", gang=3))
    assert say(reason) == "only 2 of 3 tasks fit now; all of them must start together"


def test_parts_that_are_free_are_named_beside_whole_cards_that_are_not():
    (reason,) = reasons_of(f"n1: {CARDS}x1 | bob holds 1/2", wants("ada", "1"))
    assert say(reason) == (
        "not enough whole GPUs are free on one node: 1 needed, 0 free on the best node, 0 in all; what else is free, "
        "½, is parts of cards"
    )


def test_a_card_with_free_memory_and_no_place_is_not_called_out_of_memory():
    """One card is full of memory, and the other of tasks: it was said that the best had none free."""
    busy = " | ".join(["bob holds 1GB"] * 8)
    reason = reasons_of(f"n1: {CARDS}x1 | bob holds 7/8\nn2: {CARDS}x1 | {busy}", wants("ada", "1/2"))[-1]
    assert say(reason) == "every card with enough free memory already has its maximum of tasks or compute"


def test_the_best_card_is_the_one_with_the_most_free_memory():
    text = f"n1: {CARDS}x1 | bob holds 7/8\nn2: {CARDS}x1 | bob holds 3/4"
    assert "the best has 8.5 GB free" in say(reasons_of(text, wants("ada", "1/2"))[-1])


def test_where_no_machine_takes_work_no_card_is_called_full():
    (reason,) = reasons_of(f"n1: closed {CARDS}x1", wants("ada", "1/4"))
    assert say(reason) == "no node that takes work now has a card that suits this job"


def test_cores_that_are_short_beside_free_cards_are_told_as_such():
    (reason,) = reasons_of(f"n1: {CARDS}x2 cores 8 | bob holds 1", wants("ada", "1", cores=8))
    assert say(reason) == "no node with the GPUs free has enough CPU cores beside them: 8 needed, 7 free on the best"


def test_models_of_which_parts_are_free_are_not_called_in_use():
    first = reasons_of(f"n1: A100x1 | bob holds 1/2\nn2: {CARDS}x1", wants("ada", "A100:1"))[0]
    assert say(first) == "no card of model A100 has room for this job now"


def test_a_maintenance_is_the_only_reason_where_it_is_the_reason():
    """What would be free without its machines was told beside what is free: 0 MB beside 2.5 GPUs."""
    snapshot = world(f"n1: {CARDS}x3 | bob holds 1/2", wants("ada", "1/4", time_s=1000.0))
    snapshot.closings = (MaintenanceWindow((0,), 500.0, 900.0),)
    assert [reason.reason for reason in cycle(snapshot, now=100.0).refusals[1]] == ["maintenance"]


def test_where_nothing_is_free_no_free_resources_are_called_promised():
    text, guarantee = f"n1: {CARDS}x2 | bob holds 1 | eve holds 1", {("eve", "dev"): {"gpu_milli": 2000}}
    first, second = cycle(world(text, wants("ada", "1"), guarantee=guarantee)).refusals[1]
    assert say(first).startswith("not enough whole GPUs are free") and second.reason == "borrow_denied"
    (only,) = cycle(
        world(f"n1: {CARDS}x2 | bob holds 1", wants("ada", "1"), wants("eve", "cpu", held=True), guarantee=guarantee)
    ).refusals[1]
    assert only.reason == "borrow_denied"


def test_what_is_free_is_never_told_in_the_digits_of_what_is_needed():
    """4.29 GB free and 4.3 GB needed: of both it was said that they are 4.3."""
    params = {"free_mib": 4093, "need_mib": 4101, "resource": "gpu_milli"}
    assert "the best has 4.2 GB free, and the slice needs 4.3 GB" in say(Refusal("no_fit_now", params))


@pytest.mark.parametrize("seed", range(200))
def test_no_reason_contradicts_what_is_free(seed):
    dice = Random(seed)
    lines = [
        f"n{n}: {CARDS}x1" + "".join(f" | bob holds {held}" for held in fill(dice)) for n in range(dice.randint(1, 4))
    ]
    text = "\n".join(lines)
    snapshot = world(text, wants("ada", dice.choice(ASKS), gang=dice.choice([1, 1, 3])))
    for reason in cycle(snapshot).refusals.get(1, []):
        check_against_free(reason, world(text))


def fill(dice: Random) -> list[str]:
    """What is held of one card: whole, in slices, or not at all."""
    first = dice.choice(HOLDS)
    return dice.choice([[], ["1"], [first], ["1/4", "1/4"], ["1GB"] * 8, ["1/8"] * 3])


def check_against_free(reason: Refusal, snapshot: Snapshot) -> None:
    params, mib = reason.params, snapshot.gpu_free_mib
    milli = np.minimum(1000 * mib // snapshot.gpu_total_mib, 10 * snapshot.gpu_free_percent)
    whole = snapshot.gpu_slices == 0
    if reason.reason == "fragmented":
        assert milli.sum() > 0
    if "need_mib" in params and params["free_mib"] < params["need_mib"]:
        assert mib.max() == params["free_mib"]
    elif "need_mib" in params:
        assert mib.max() >= params["need_mib"]
    elif reason.reason == "no_fit_now":
        split = ~whole & (snapshot.gpu_slices < snapshot.gpu_max_slices)
        assert params["free"] == whole.sum() and params.get("parts_gpu_milli", 0) == milli[split].sum()
