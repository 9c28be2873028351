"""What a runtime reports of a task's container: phase, exit, use of cards."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Phase = Literal["starting", "running", "exited", "lost"]


@dataclass(frozen=True)
class GpuUse:
    """A task's use of a shared card, newest sample.

    used_mib: larger of driver's figure and slice's account. refused: memory requests. watched: false while the watch is
    down. compute: "mps" or "turns". over: why the task must end, if the runtime cannot tell.
    """

    uuid: str
    limit_mib: int
    used_mib: int
    peak_mib: int
    refused: int
    watched: bool = True
    compute: str = "turns"
    over: str = ""


@dataclass(frozen=True)
class ContainerView:
    """State of a task's container. `exited` proves that no process is left; `lost` is unknown.

    exit_code: None if unknown or killed by `signal`. cause: "", out_of_memory, gpu_out_of_memory, time_limit,
    start_failed, image_pull, never_started, stopped, container_lost, refused_by_node (may run elsewhere), evicted,
    node_lost; while starting, why it never will. detail: the engine's message. checkpointed_at: up to 10 s late.
    gpu_use: up to 2 s late. abandoned: while starting, whoever began the start is gone, so it is to be sent again.
    """

    uuid: str
    node: str
    phase: Phase
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""
    detail: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    address: str = ""
    epoch: int = 0
    peak_memory_mib: int | None = None
    checkpointed_at: datetime | None = None
    gpu_use: tuple[GpuUse, ...] = ()
    fetching_since: datetime | None = None
    abandoned: bool = False
