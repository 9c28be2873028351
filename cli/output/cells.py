"""Cells of job tables, short enough for 80 columns."""

import re
from datetime import UTC, datetime

VULGAR = {"1/8": "⅛", "1/4": "¼", "3/8": "⅜", "1/2": "½", "5/8": "⅝", "3/4": "¾", "7/8": "⅞"}
NONE = "–"
BAR = 20
OPEN = ("queued", "starting", "running", "stopping")
ENDED = ("succeeded", "failed", "cancelled")

_MODEL_PART = re.compile(r"(?P<models>[A-Z][^:/]*)/(?P<part>[0-9]+)")


def format_gpus(job: dict) -> str:
    """Return the GPUs asked: "¼", "4×8 H100"; with roles a sum."""
    roles = job.get("roles") or []
    if len(roles) > 1:
        return " + ".join(_gpus(role["gpu"], count_tasks(job, role)) for role in roles)
    return _gpus(str(job["gpu"]), job["nodes"])


def count_tasks(job: dict, role: dict) -> int:
    """Count the role's tasks: the minimum while waiting."""
    if job["state"] == "queued":
        return role["least"]
    return sum(task["role"] == role["name"] for task in job["tasks"])


def _gpus(ask: str, nodes: int) -> str:
    if ask == "0":
        return NONE if nodes == 1 else f"{nodes}×0"
    if found := _MODEL_PART.fullmatch(ask):
        models, amount = found["models"], f"1/{found['part']}"
    elif ":" in ask:
        models, amount = ask.split(":", 1)
    elif ask[:1].isalpha():
        models, amount = ask, "1"
    else:
        models, amount = "", ask
    many = f"{nodes}×" if nodes > 1 else ""
    return f"{many}{VULGAR.get(amount, amount)} {models}".rstrip()


def count_ended(array: dict) -> int:
    return sum(array["elements"][state] for state in ENDED)


def format_elements(array: dict) -> str:
    """Return how many elements of an array are in which state: "2 running, 3 failed"."""
    return ", ".join(f"{count} {state}" for state, count in array["elements"].items() if count)


def format_place(job: dict) -> str:
    """Return the first task's node and GPUs, and the number of other nodes: "n1:0,1 +3"."""
    placed = [task for task in job["tasks"] if task["node"]]
    if not placed:
        return NONE
    places = ",".join(card["place"] for card in placed[0]["gpus"])
    first = f"{placed[0]['node']}:{places}" if places else placed[0]["node"]
    others = len({task["node"] for task in placed}) - 1
    return f"{first} +{others}" if others else first


def list_other_pools(job: dict) -> list[str]:
    """List where else a job waits than in the pool where it is to start first."""
    return [pool for pool in job.get("pools", []) if pool != job["pool"]]


def format_wait_or_run(job: dict, now: datetime) -> str:
    """Return how long it ran, or has waited."""
    begin = parse_time(job["started_at"]) or parse_time(job["submitted_at"])
    if begin is None:
        return NONE
    return format_duration(((parse_time(job["ended_at"]) or now) - begin).total_seconds())


def describe_next(job: dict, now: datetime) -> str:
    """Return why it waits, when it ends, or how it ended."""
    state = job["state"]
    if state == "queued":
        return describe_wait(job)
    if state in ENDED:
        return describe_end(job)
    if job["stop_requested_at"]:
        return "is being stopped"
    end = parse_time(job["expected_end_at"])
    return f"ends by {format_clock(end, now)}" if end else NONE


def describe_wait(job: dict) -> str:
    """Return queue position and first reason."""
    if job["held"]:
        return f"held by {job['held_by']}"
    wait = job["wait"] or {}
    reasons = wait.get("reasons") or [{"text": ""}]
    place = f"#{wait['position']}" if wait.get("position") else ""
    return " · ".join(part for part in (place, reasons[0]["text"]) if part) or NONE


def describe_end(job: dict) -> str:
    if job["reason"] == "exit_nonzero" and job["exit_code"] is not None:
        return f"exit {job['exit_code']}"
    return NONE if job["state"] == "succeeded" else job["reason_text"] or NONE


def format_duration(seconds: float) -> str:
    """Return the two largest units: "41s", "2h10m"."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    days, hours = divmod(hours, 24)
    return f"{days}d{hours}h" if hours else f"{days}d"


def draw_bar(percent: float | None) -> str:
    """Return a bar of a full 100 %, empty where it is not known: "[|||||     ]"."""
    filled = 0 if percent is None else round(BAR * min(max(percent, 0), 100) / 100)
    return f"[{'|' * filled}{' ' * (BAR - filled)}]"


def parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def format_clock(at: datetime, now: datetime) -> str:
    """Return local time, with the day unless today."""
    here = at.astimezone()
    return here.strftime("%H:%M" if here.date() == now.astimezone().date() else "%b %d %H:%M")


def format_expiry(text: str | None) -> str:
    """Return the last day of a key or token."""
    end = parse_time(text)
    if end is None:
        return NONE
    return "expired" if end <= now() else end.astimezone().strftime("%Y-%m-%d")


def now() -> datetime:
    return datetime.now(UTC)


def format_bytes(number: float) -> str:
    """Return an amount: "1.5 GB"."""
    units = iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while number >= 999.5 and unit != "TB":
        number, unit = number / 1000, next(units)
    return f"{number:.3g} {unit}"
