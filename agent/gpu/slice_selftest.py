"""Judging the slice library's trial (agent/slice/src/trial.c), without and with a slice."""

LIMIT_MIB = 64
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
UNTRIED = "Not run on real hardware by its makers yet."


class Failed(Exception):
    """The slice does not hold. The message is a sentence."""


def judge(bare: dict[str, int], kept: dict[str, int]) -> str:
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
