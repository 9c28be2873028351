"""A history of a few jobs, by hand: a day on machines of four cards, of teams nlp and vision."""

from dataclasses import replace

from monitoring.history.file_format import (
    Attempt,
    Header,
    History,
    JobLine,
    MachineLine,
    PoolLine,
    QuotaLine,
    Seat,
    TeamLine,
)

DAY = 86_400.0
MIB = 32_000


def machine(name: str = "n1", pool: str = "train", cards: int = 4, state: str = "READY") -> MachineLine:
    card = {
        "model": "V100",
        "product": "Tesla V100",
        "memory_mib": MIB,
        "pool": pool,
        "sliceable": True,
        "healthy": True,
    }
    return MachineLine(name, pool, 64_000, 500_000, state, [{"index": index, **card} for index in range(cards)])


def job(
    number: int, at: float, run_s: float | None = None, *, waited_s: float = 0.0, gpus: int = 4, **fields
) -> JobLine:
    """run_s: None for a job that never started."""
    usual = {"team": "nlp", "person": "ada", "kind": "batch", "priority": 1, "preemptible": False}
    gang = [{"role": "main", "min": 1, "max": 1, "request": {"gpu": str(gpus), "cpu_milli": 1000, "memory_mib": 1024}}]
    begun = at + waited_s
    seats = [Seat("main", 0, "n1", [[card, MIB, 100, 1000] for card in range(gpus)], 1000, 1024)]
    ran = {"assigned_at": begun, "started_at": begun, "freed_at": begun + (run_s or 0), "reason": "completed"}
    attempt = Attempt(at, pool="train", seats=seats, **ran) if run_s else Attempt(at)
    choices = [{"pool": "train", "gang": gang, "max_time_s": None}]
    given = {"attempts": [attempt], "choices": choices, "submitted_at": at, "ended_at": attempt.freed_at}
    return JobLine(id=number, **{**usual, **given, **fields})


def history(*jobs: JobLine, **fields) -> History:
    policy = {"shared": False, "ageing_s": 43_200}
    usual = {
        "pools": (PoolLine("train", policy),),
        "teams": (TeamLine("nlp"), TeamLine("vision")),
        "machines": (machine(),),
        "quotas": (QuotaLine("nlp", "train", {}), QuotaLine("vision", "train", {})),
    }
    return replace(History(Header(1, 0.0, DAY, False), jobs=tuple(jobs)), **{**usual, **fields})
