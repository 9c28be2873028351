"""Node agents: enrolment, reports and approval.

An agent reports for its own machine only; its key is stored as a digest. Capacity is what an admin approved.
"""

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from cluster.models import MACHINE_NAME, Agent, Enrolment, Gpu
from cluster.report_approval import (
    HeldBack,
    Reported,
    build_reported,
    check_report,
    fingerprint_report,
    list_held_back,
    read_capacity,
)
from common.errors import Conflict, FieldError, InvalidInput, NotFound, NotPermitted, StaleState
from common.locks import lock_rows
from common.secrets import digest_secret
from events.record_and_publish import SYSTEM, Actor, hint, record

TOKEN, KEY = "ten_", "tag_"
"""Prefixes of enrolment tokens and agent keys."""
KEY_SHAPE = re.compile(r"tag_[A-Za-z0-9_-]{43,86}")
TOKEN_LASTS = timedelta(minutes=15)
REPORT_EVERY_S = 30
SILENT_AFTER = timedelta(seconds=4 * REPORT_EVERY_S)


@transaction.atomic
def invite_agent(*, actor: Actor, node_name: str) -> tuple[Enrolment, str]:
    """Create a one-time enrolment token; return (row, token)."""
    if not MACHINE_NAME.regex.match(node_name):  # type: ignore[union-attr]
        raise InvalidInput([FieldError("/node", "bad_machine_name", {"got": node_name[:40]})])
    Enrolment.objects.filter(Q(node_name=node_name) | Q(expires_at__lt=Now()), used_at__isnull=True).delete()
    token = TOKEN + secrets.token_urlsafe(32)
    row = Enrolment.objects.create(
        node_name=node_name,
        digest=digest_secret(token),
        created_by=actor.name,
        expires_at=timezone.now() + TOKEN_LASTS,
    )
    record(row, "invited", actor=actor, new=True)
    return row, token


@transaction.atomic
def enrol_agent(*, token: str, key: str) -> Agent:
    """Enrol an agent with its key; safe to repeat. Raises InvalidInput, NotPermitted, Conflict."""
    if not KEY_SHAPE.fullmatch(key):
        raise InvalidInput([FieldError("/key", "bad_agent_key_shape")])
    word = _find_enrolment(token)
    agent = Agent.objects.filter(node_name=word.node_name).first()
    if word.used_at is not None:
        if agent is None or agent.digest != digest_secret(key) or agent.revoked_at is not None:
            raise NotPermitted("enrolment_used", node=word.node_name)
        return agent
    if word.expires_at <= timezone.now():
        raise NotPermitted("enrolment_expired", node=word.node_name)
    Enrolment.objects.filter(pk=word.pk).update(used_at=Now())
    agent = _give_key(word.node_name, digest_secret(key))
    record(agent, "enrolled", actor=SYSTEM, params={"invited_by": word.created_by})
    return agent


def find_agent(key: str) -> Agent | None:
    """Return the agent with this key, unless revoked."""
    return Agent.objects.filter(digest=digest_secret(key), revoked_at__isnull=True).first()


@transaction.atomic
def revoke_agent(*, actor: Actor, node_name: str) -> None:
    """Revoke an agent's key. Raises NotFound."""
    agent = _lock(node_name)
    if agent.revoked_at is None:
        Agent.objects.filter(pk=agent.pk).update(revoked_at=Now())
        record(agent, "revoked", actor=actor)


def take_report(agent: Agent, report: dict[str, Any]) -> list[HeldBack]:
    """Store a report; return what awaits approval. Raises InvalidInput."""
    check_report(report)
    changed = _without_samples(report) != _without_samples(agent.report)
    Agent.objects.filter(pk=agent.pk).update(report=report, reported_at=Now())
    if changed:
        hint("take_inventory")
    (judged,) = check_agents([Agent(node_name=agent.node_name, report=report, approved=agent.approved)])
    return judged.held_back


@transaction.atomic
def approve_agent(*, actor: Actor, node_name: str, seen: str) -> Agent:
    """Approve all that waits if it is still `seen`, the fingerprint. Raises NotFound, StaleState."""
    agent = _lock(node_name)
    (judged,) = check_agents([agent])
    if seen != judged.seen:
        raise StaleState(kind=Agent.KIND, was=seen)
    waiting = {one.uuid for one in judged.held_back if one.code != "card_elsewhere"}
    fresh = {gpu["uuid"]: read_capacity(gpu) for gpu in agent.report.get("gpus", ()) if gpu["uuid"] in waiting}
    if fresh:
        agent.approved = {**agent.approved, **fresh}
        Agent.objects.filter(pk=agent.pk).update(approved=agent.approved)
        record(agent, "approved", actor=actor, params={"gpus": sorted(fresh)})
        hint("take_inventory")
    return agent


@dataclass(frozen=True)
class Judged:
    agent: Agent
    held_back: list[HeldBack]

    @property
    def seen(self) -> str:
        return fingerprint_report(self.agent.report, self.held_back)


def check_agents(agents: Iterable[Agent]) -> list[Judged]:
    """Compare agents' reports with what was approved."""
    rows = list(agents)
    elsewhere = _elsewhere(rows)
    return [Judged(a, list_held_back(a.report, a.approved, elsewhere[a.node_name])) for a in rows]


def load_reported(node_names: Iterable[str]) -> dict[str, Reported]:
    """Return {machine: usable part of its last report}."""
    agents = list(Agent.objects.filter(node_name__in=list(node_names), reported_at__isnull=False))
    elsewhere = _elsewhere(agents)
    return {a.node_name: build_reported(a.report, a.approved, elsewhere[a.node_name]) for a in agents}


def _find_enrolment(token: str) -> Enrolment:
    rows = lock_rows(Enrolment.objects.filter(digest=digest_secret(token)))
    if not rows:
        raise NotPermitted("bad_enrolment")
    return rows[0]


def _give_key(node_name: str, digest: str) -> Agent:
    try:
        with transaction.atomic():
            agent, _made = Agent.objects.update_or_create(
                node_name=node_name, defaults={"digest": digest, "revoked_at": None, "enrolled_at": Now()}
            )
    except IntegrityError:
        raise Conflict("agent_key_taken", node=node_name) from None
    agent.refresh_from_db()
    return agent


def _lock(node_name: str) -> Agent:
    rows = lock_rows(Agent.objects.filter(node_name=node_name))
    if not rows:
        raise NotFound(kind=Agent.KIND, id=node_name)
    return rows[0]


def _elsewhere(agents: list[Agent]) -> dict[str, dict[str, str]]:
    """Return {machine: {uuid: other machine with this card}}; the first claim wins."""
    claims = [(gpu["uuid"], agent) for agent in agents for gpu in agent.report.get("gpus", ())]
    homes = {uuid: agent.node_name for uuid, agent in reversed(claims) if uuid in agent.approved}
    present = Gpu.objects.present().filter(uuid__in={uuid for uuid, _ in claims})
    homes |= dict(present.values_list("uuid", "node__name"))
    return {
        agent.node_name: {
            gpu["uuid"]: homes[gpu["uuid"]]
            for gpu in agent.report.get("gpus", ())
            if homes.get(gpu["uuid"], agent.node_name) != agent.node_name
        }
        for agent in agents
    }


def _without_samples(report: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name != "samples"}
