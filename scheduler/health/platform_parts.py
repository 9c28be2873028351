"""The platform's own processes, loops and services: whether they are there, and when they last succeeded."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.utils import timezone

from cluster.agents import SILENT_AFTER
from cluster.models import Agent
from monitoring.backing_services import MailState, ValkeyState, ask_valkey, load_mail_state
from monitoring.checks import list_wrong_checks
from monitoring.engine.reading import EngineState, ask_engine
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
    """kind: process, loop, agent, engine or service. last_at: when it last said or did something. took_ms: a loop's
    last round, or an answer. sent: how far samples were sent to a series engine. state: of a service, or of an engine
    that charts read.
    """

    kind: str
    name: str
    where: str
    tone: Tone
    last_at: datetime | None
    version: str = ""
    took_ms: int | None = None
    sent: RemoteWrite | None = None
    state: ValkeyState | MailState | EngineState | None = None


def list_platform_parts() -> list[PlatformPart]:
    """Return all of them, what is broken first."""
    return _sort_parts([*_processes(), *_loops(), *_agents(), *_engines(), *_services()])


def find_platform_faults() -> Iterator[Finding]:
    """Say what of it is gone or stuck. Nothing where no process says that it is there, as in tests."""
    parts = _sort_parts(_processes())
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
    """Say whether a series engine takes what is sent to it, and answers."""
    for part in _engines():
        if isinstance(part.state, EngineState):
            yield _judge_engine(part, part.state)
            continue
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


def find_service_faults() -> Iterator[Finding]:
    """Say whether Valkey answers, and whether the mail server takes mails."""
    for part in _services():
        if isinstance(part.state, ValkeyState):
            yield _judge_valkey(part.state, part.tone)
        elif isinstance(part.state, MailState):
            yield _judge_mail(part.state, part.tone)


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


def _sort_parts(parts: Iterable[PlatformPart]) -> list[PlatformPart]:
    return sorted(parts, key=lambda part: (WORST_FIRST.index(part.tone), part.kind, part.name, part.where))


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
    if url := settings.TESSERA_REMOTE_WRITE["url"]:
        yield _look_at_sent(urlsplit(url).netloc)
    if url := settings.TESSERA_REMOTE_READ["url"]:
        state, where = ask_engine(), urlsplit(url).netloc
        tone: Tone = "ok" if state.answers else "note"
        asked_at = timezone.now() if state.answers else None
        yield PlatformPart("engine", "remote read", where, tone, asked_at, took_ms=state.took_ms, state=state)


def _look_at_sent(where: str) -> PlatformPart:
    sent, now = load_sent(), timezone.now()
    behind = sent is None or now - sent.until > BEHIND_AFTER
    dropped = sent is not None and sent.dropped_at is not None and now - sent.dropped_at < DROPPED_FOR
    tone: Tone = "note" if behind or dropped else "ok"
    return PlatformPart("engine", "remote write", where, tone, sent.sent_at if sent else None, sent=sent)


def _services() -> Iterator[PlatformPart]:
    valkey, mail = ask_valkey(), load_mail_state()
    tone: Tone = "bad" if not valkey.answers else "note" if valkey.is_nearly_full else "ok"
    asked_at = timezone.now() if valkey.answers else None
    yield PlatformPart("service", "Valkey", "", tone, asked_at, valkey.version, valkey.took_ms, state=valkey)
    tone = "bad" if mail.is_down else "note" if mail.waiting else "ok"
    yield PlatformPart("service", "mail", settings.TESSERA_MAIL_HOST, tone, mail.accepted_at, state=mail)


def _judge_engine(part: PlatformPart, state: EngineState) -> Finding:
    if state.answers:
        return Finding("series engine", part.tone, f"{part.where} answers charts of what is older than is kept here.")
    words = (
        f"{part.where} does not answer as it should: {' '.join(filter(None, [state.why, str(state.status or '')]))}."
    )
    remedy = "Look at TESSERA_REMOTE_READ_URL and the engine's log. Charts show what PostgreSQL keeps."
    return Finding("series engine", part.tone, words, remedy)


def _judge_valkey(state: ValkeyState, tone: Tone) -> Finding:
    if not state.answers:
        remedy = "Start it, or look at its log and TESSERA_VALKEY_URL. What must last is in PostgreSQL."
        return Finding("valkey", tone, "Valkey does not answer.", remedy)
    limit = f" of {state.limit_mib}" if state.limit_mib else ""
    words = f"Valkey {state.version} answers; {state.used_mib}{limit} MiB of memory are in use."
    return Finding("valkey", tone, words, "Give it more memory (maxmemory)." if tone == "note" else "")


def _judge_mail(state: MailState, tone: Tone) -> Finding:
    if not state.is_on:
        return Finding("mail", tone, "No mail is sent, as no mail server is set (TESSERA_MAIL_HOST).")
    taken = (
        f"took a mail last at {state.accepted_at:%Y-%m-%d %H:%M} UTC" if state.accepted_at else "took no mail lately"
    )
    if tone == "ok":
        return Finding("mail", tone, f"The mail server {taken}.")
    remedy = "Look at the TESSERA_MAIL_ settings and the sender's log. Each mail is tried again for a day."
    return Finding("mail", tone, f"Mails that failed and are tried again: {state.waiting}. The server {taken}.", remedy)
