"""The slice library's self-test (agent/slice/src/trial.c): its program, and what its answers prove."""

import json
from contextlib import suppress
from pathlib import Path

PROGRAM = "trial"
LIMIT_MIB = 64
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
UNTRIED = "Not run on real hardware by its makers yet."


class Failed(Exception):
    """The slice does not hold. The message is a sentence."""


def build_command(folder: str | Path, uuid: str) -> list[str]:
    """Return the command of the program in `folder`, for one card."""
    return [f"{folder}/{PROGRAM}", uuid, str(LIMIT_MIB << 20)]


def build_environment(uuid: str) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def read_answer(out: str, errors: str, how: str = "") -> dict[str, int]:
    """Return the program's answer. how: without or with a slice, for the message. Raises Failed."""
    lines = [line for line in out.splitlines() if line.strip() not in ("", "ready")]
    with suppress(IndexError, ValueError):
        answer = json.loads(lines[-1])
        if isinstance(answer, dict):
            return answer
    words = " ".join([*errors.split(), *out.split()])[-160:]
    raise Failed(f"{how} a program fails: {words or 'it says nothing'}.".lstrip())


def check_answers(bare: dict[str, int], kept: dict[str, int]) -> str:
    """Return the evidence. bare, kept: the trial's output without and within a slice of LIMIT_MIB. Raises Failed."""
    limit = LIMIT_MIB << 20
    if bare["total_bytes"] <= limit:
        raise Failed(f"without it a program sees {bare['total_bytes'] >> 20} MiB, too few to compare.")
    for name, what in (("device_bytes", "CUDA"), ("total_bytes", "cuMemGetInfo"), ("nvml_bytes", "NVML")):
        if kept[name] != limit:
            raise Failed(f"{what} says {kept[name] >> 20} MiB in a slice of {LIMIT_MIB}.")
    if kept["half"] != 0 or kept["more"] != OUT_OF_MEMORY:
        raise Failed(f"in a slice of {LIMIT_MIB} MiB the driver answered {kept['half']} and {kept['more']}.")
    saw = f"A trial in a slice of {LIMIT_MIB} MiB saw {LIMIT_MIB} of {bare['total_bytes'] >> 20} MiB"
    return f"{saw} and was refused more. {UNTRIED}"
