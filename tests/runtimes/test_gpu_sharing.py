from dataclasses import replace

import pytest

from runtimes.contract.task import GpuShare
from runtimes.gpu_sharing import (
    HAMI,
    MIG,
    ProbeFacts,
    SliceTrial,
    build_slice_environment,
    choose_mode,
    is_forbidden_env,
    list_watched_limits,
    needs_slice,
)
from runtimes.local.node.simulated_cards import simulate_cards

CARDS = {gpu.uuid: replace(gpu, simulated=False, mode=HAMI) for gpu in simulate_cards("2xV100-32GB", "n1").gpus}
FIRST, SECOND = CARDS
QUARTER = GpuShare(FIRST, 0, 8127, 25, False)
HALF = GpuShare(SECOND, 1, 16255, 50, False)
WHOLE = GpuShare(FIRST, 0, 32510, 100, True)


def environment(*shares, libvgpu=None):
    return build_slice_environment(shares, CARDS, libvgpu=libvgpu, region="/scratch/region")


def test_a_job_without_a_card_sees_none():
    assert environment() == ({}, {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"})


def test_a_slice_is_named_by_uuid_in_bus_order():
    _, fixed = environment(QUARTER, HALF)
    assert fixed["CUDA_VISIBLE_DEVICES"] == fixed["NVIDIA_VISIBLE_DEVICES"] == f"{FIRST},{SECOND}"
    assert fixed["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID" and fixed["TESSERA_GPU_MEMORY_MIB"] == "8127,16255"


def test_frameworks_are_told_their_slice_and_a_job_may_say_otherwise():
    hints, fixed = environment(QUARTER)
    assert hints["CUPY_GPU_MEMORY_LIMIT"] == str(8127 << 20) and hints["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.2480"
    assert not any(is_forbidden_env(name) for name in hints) and not set(hints) & set(fixed)


def test_a_whole_card_has_no_limits():
    hints, fixed = environment(WHOLE, libvgpu="/opt/libvgpu.so")
    assert hints == {} and "LD_PRELOAD" not in fixed
    assert list_watched_limits([WHOLE, HALF], CARDS) == {SECOND: 16255}


def test_an_instance_of_a_card_needs_no_library_and_no_watch():
    part = GpuShare("MIG-1", 1205, 4864, 100, True)
    cards = {"MIG-1": replace(CARDS[FIRST], uuid="MIG-1", mode=MIG)}
    hints, fixed = build_slice_environment([part], cards, libvgpu="/opt/libvgpu.so")
    assert hints == {} and fixed["CUDA_VISIBLE_DEVICES"] == "MIG-1" and "LD_PRELOAD" not in fixed
    assert not needs_slice([part], cards) and list_watched_limits([part], cards) == {}


def test_hami_gets_a_region_of_the_jobs_own():
    _, fixed = environment(QUARTER, HALF, libvgpu="/opt/libvgpu.so")
    assert fixed["CUDA_DEVICE_MEMORY_LIMIT_1"] == "16255m" and fixed["CUDA_DEVICE_SM_LIMIT_0"] == "25"
    assert fixed["LD_PRELOAD"] == "/opt/libvgpu.so" and fixed["CUDA_DEVICE_MEMORY_SHARED_CACHE"] == "/scratch/region"


def test_simulated_cards_are_not_watched():
    simulated = {uuid: replace(gpu, simulated=True) for uuid, gpu in CARDS.items()}
    assert list_watched_limits([QUARTER], simulated) == {}


def test_nothing_is_promised_that_was_not_tried():
    assert choose_mode(ProbeFacts("580.1", "/opt/libvgpu.so", True))[0] == HAMI
    for facts in (ProbeFacts("615.71", None, False), ProbeFacts("580.1", "/opt/libvgpu.so", False)):
        mode, evidence = choose_mode(facts)
        assert mode == "watchdog" and "watched" in evidence


def test_our_own_library_is_promised_after_its_trial_and_after_what_the_admin_named():
    tried = SliceTrial(True, "It saw 64 MiB.", 0)
    assert choose_mode(ProbeFacts("580.1", None, False, tried)) == ("slice", "It saw 64 MiB.")
    assert choose_mode(ProbeFacts("580.1", "/opt/libvgpu.so", True, tried))[0] == HAMI
    assert choose_mode(ProbeFacts("580.1", "/opt/libvgpu.so", False, tried))[0] == "slice"
    mode, evidence = choose_mode(ProbeFacts("580.1", None, False, SliceTrial(False, "It saw all.")))
    assert mode == "watchdog" and evidence.endswith("It saw all.")


def test_in_a_slice_of_ours_frameworks_are_told_nothing_since_they_see_it():
    cards = {uuid: replace(gpu, mode="slice") for uuid, gpu in CARDS.items()}
    hints, _ = build_slice_environment([QUARTER], cards, libvgpu=None, region="")
    assert hints == {}
    assert needs_slice([QUARTER], cards) and needs_slice([WHOLE, HALF], cards) and not needs_slice([WHOLE], cards)
    assert not needs_slice([QUARTER], CARDS)


REFUSED = """CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES CUDA_DEVICE_MEMORY_LIMIT_0 CUDA_MPS_PIPE_DIRECTORY LD_PRELOAD
TESSERA_TASK cuda_visible_devices CUDA_DISABLE_CONTROL CUDA_DEVICE_ORDER"""


@pytest.mark.parametrize("name", REFUSED.split())
def test_names_that_a_user_may_not_set(name):
    assert is_forbidden_env(name)


@pytest.mark.parametrize("name", ["PATH", "CUDA_LAUNCH_BLOCKING", "CUDA_HOME", "LD_LIBRARY_PATH", "WANDB_API_KEY", "X"])
def test_names_that_a_user_may_set(name):
    assert not is_forbidden_env(name)
