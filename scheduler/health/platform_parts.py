"""The platform's own processes and loops: whether they are there, and when they last succeeded."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.utils import timezone

from cluster.agents import SILENT_AFTER
from cluster.models import Agent
from monitoring.checks import list_wrong_checks
from monitoring.engine.sending import load_sent
from monitoring.models import CheckState, ProcessNow, RemoteWrite
from monitoring.presence import is_missed
from runtimes.contract.runtime import Finding, Tone
from scheduler.models import Lease

NEEDED = ("web", "worker", "beat", "sender")
LATE_AFTER = {"cycle": timedelta(seconds=60), "reconcile": timedelta(seconds=60)}
SELDOM = timedelta(minutes=10)
"""Loops that run less often, such as forecasts."""
WORST_FIRST: tuple[Tone, ...] = ("bad", "note", "ok")
MOST_NAMED = 5
BEHIND_AFTER, DROPPED_FOR = timedelta(minutes=3), timedelta(hours=1)
"""When a series engine is worth a note. It is never more: nothing of the platform waits for it."""


@dataclass(frozen=True)
class PlatformPart:
    """kind: process, loop, agent or engine. last_at: when it last said or did something. took_ms: a loop's last round.
    sent: how far samples were sent to a series engine.
    """

    kind: str
    name: str
    where: str
    tone: Tone
    last_at: datetime | None
    version: str = ""
    took_ms: int | None = None
    sent: RemoteWrite | None = None


def list_platform_parts() -> list[PlatformPart]:
    """Return all of them, what is broken first."""
    parts = [*_processes(), *_loops(), *_agents(), *_engines()]
    return sorted(parts, key=lambda part: (WORST_FIRST.index(part.tone), part.kind, part.name, part.where))


def find_platform_faults() -> Iterator[Finding]:
    """Say what of it is gone or stuck. Nothing where no process says that it is there, as in tests."""
    parts = [part for part in list_platform_parts() if part.kind == "process"]
    if not parts:
        return
    remedy = "Start it, or look at its log: bin/start, docker compose and Kubernetes start it again by themselves."
    for part in parts:
        if part.tone == "bad":
            what = f"on {part.where} has said nothing for a minute" if part.where else "is not running"
            yield Finding("processes", "bad", f"{part.name} {what}.", remedy)
    versions = sorted({part.version for part in parts if part.version})
    if len(versions) > 1:
        words = f"Processes of versions {', '.join(versions)} run together."
        yield Finding("processes", "note", words, "Finish the upgrade: restart those of the old version.")
    if all(part.tone == "ok" for part in parts):
        yield Finding("processes", "ok", f"{len(parts)} processes of the platform are there.")


def find_engine_faults() -> Iterator[Finding]:
    """Say whether a series engine takes what is sent to it."""
    for part in _engines():
        if part.sent is None:
            yield Finding("series engine", "note", f"Nothing was sent to {part.where} yet.", "Is the sender there?")
            continue
        late_s = max((timezone.now() - part.sent.until).total_seconds(), 0)
        words = f"{part.where} has samples until {late_s:.0f} s ago; {part.sent.dropped} values were dropped so far."
        if part.tone == "ok":
            yield Finding("series engine", "ok", words)
            continue
        said = " ".join(filter(None, [part.sent.error, str(part.sent.status or ""), part.sent.words]))
        remedy = "Look at TESSERA_REMOTE_WRITE_URL and the engine's log. Nothing of the platform waits for it."
        yield Finding("series engine", "note", f"{words}{f' It says: {said}' if said else ''}", remedy)


def find_machine_faults() -> Iterator[Finding]:
    """Say which checks of machines fail or warn."""
    wrong = list_wrong_checks()
    tones: dict[CheckState, Tone] = {CheckState.FAIL: "bad", CheckState.WARN: "note"}
    for state, tone in tones.items():
        found = [check for check in wrong if check.state == state]
        for check in found[:MOST_NAMED]:
            where = f"{check.node.name}{f', {check.card}' if check.card else ''}"
            remedy = f"See tessera nodes show {check.node.name}"
            yield Finding("machines", tone, f"{where}: {check.name}. {check.words}", remedy)
        if len(found) > MOST_NAMED:
            names = ", ".join(f"{name} {count} times" for name, count in Counter(one.name for one in found).items())
            yield Finding("machines", tone, f"{len(found) - MOST_NAMED} more such checks: {names}.")


def _processes() -> Iterator[PlatformPart]:
    rows = list(ProcessNow.objects.all())
    alive = {row.role for row in rows if not is_missed(row)}
    for row in rows:
        tone: Tone = "ok" if not is_missed(row) else "note" if row.role in alive else "bad"
        yield PlatformPart("process", row.role, f"{row.host}:{row.pid}", tone, row.seen_at, row.version)
    needed = (*NEEDED, "watch") if settings.IN_CONTAINERS else NEEDED
    for role in needed if rows else ():
        if role not in {row.role for row in rows}:
            yield PlatformPart("process", role, "", "bad", None)


def _loops() -> Iterator[PlatformPart]:
    for lease in Lease.objects.order_by("name"):
        late = lease.last_ok_at is None or timezone.now() - lease.last_ok_at > LATE_AFTER.get(lease.name, SELDOM)
        tone: Tone = "ok" if not late else "bad" if lease.name in LATE_AFTER else "note"
        yield PlatformPart("loop", lease.name, lease.holder, tone, lease.last_ok_at, took_ms=lease.last_ms)


def _agents() -> Iterator[PlatformPart]:
    for agent in Agent.objects.filter(revoked_at=None):
        silent = agent.reported_at is None or timezone.now() - agent.reported_at > SILENT_AFTER
        version = str(agent.report.get("agent", ""))
        yield PlatformPart("agent", agent.node_name, "", "bad" if silent else "ok", agent.reported_at, version)


def _engines() -> Iterator[PlatformPart]:
    if not (url := settings.TESSERA_REMOTE_WRITE["url"]):
        return
    sent, now = load_sent(), timezone.now()
    behind = sent is None or now - sent.until > BEHIND_AFTER
    dropped = sent is not None and sent.dropped_at is not None and now - sent.dropped_at < DROPPED_FOR
    tone: Tone = "note" if behind or dropped else "ok"
    yield PlatformPart("engine", "remote write", urlsplit(url).netloc, tone, sent.sent_at if sent else None, sent=sent)
