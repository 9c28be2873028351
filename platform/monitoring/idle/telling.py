"""Tell people of a rung, each once, and know whether it reached them.

A notice has reached somebody once a page showed it, or its mail was sent.
"""

from collections.abc import Iterable
from typing import Any

from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Now

from accounts.models import Membership, PlatformRole, Team, TeamRole, User
from events.models import Notice
from events.notices import notify
from jobs.models import Job
from jobs.states import JobState
from monitoring.idle.rungs import Rung
from monitoring.models import IdleTold, IdleWatch
from notebooks.models import Notebook

KINDS = {
    Rung.NOTED: "idle_noticed",
    Rung.REMINDED: "idle_reminded",
    Rung.WARNED: "idle_warned",
    Rung.ACTED: "idle_acted",
}


def tell(
    watch: IdleWatch,
    rung: Rung,
    users: Iterable[User],
    *,
    about: Job | Notebook,
    params: dict[str, Any],
    instead: bool = False,
) -> None:
    """Notify people of a rung. One who was told of it already is not told again."""
    for user in users:
        told, new = IdleTold.objects.get_or_create(
            watch=watch, ladder=watch.ladder, rung=rung, user=user, defaults={"instead": instead}
        )
        if new:
            notice = notify(user_id=user.pk, kind=KINDS[rung], about=about, params=params)
            IdleTold.objects.filter(pk=told.pk).update(notice_id=notice.pk if notice else None)
        elif instead:
            IdleTold.objects.filter(pk=told.pk).update(instead=True)


def has_reached(watch: IdleWatch, owner_id: int) -> bool:
    """Whether the last rung reached the owner, or whoever was told instead."""
    if watch.rung == Rung.NONE:
        return True
    mailed = Notice.objects.filter(pk=OuterRef("notice_id"), sent_at__isnull=False)
    told = IdleTold.objects.filter(Q(user=owner_id) | Q(instead=True), watch=watch, ladder=watch.ladder)
    return told.filter(Q(shown_at__isnull=False) | Exists(mailed), rung=watch.rung).exists()


def was_told_instead(watch: IdleWatch) -> bool:
    return IdleTold.objects.filter(watch=watch, ladder=watch.ladder, rung=watch.rung, instead=True).exists()


def list_told_jobs(user_id: int) -> list[int]:
    """Return the running jobs that are idle and of which a person was told on their present ladder."""
    told = IdleTold.objects.filter(user=user_id, ladder=F("watch__ladder"), watch__since__isnull=False)
    running = told.filter(watch__job__state=JobState.RUNNING, watch__attempt=F("watch__job__attempt"))
    return list(dict.fromkeys(running.order_by("-pk").values_list("watch", flat=True)))


def mark_shown(user_id: int) -> int:
    """Record that a person sees a page that says what of theirs is idle."""
    return IdleTold.objects.filter(user=user_id, shown_at__isnull=True).update(shown_at=Now())


def find_leads(team: Team, but: int) -> list[User]:
    """Return a team's other leads; the administrators where there is none."""
    leads = Membership.objects.filter(team=team, role=TeamRole.LEAD).values("user")
    active = User.objects.filter(suspended_at__isnull=True).exclude(pk=but).order_by("pk")
    return list(active.filter(pk__in=leads)) or list(active.filter(platform_role=PlatformRole.ADMIN))
