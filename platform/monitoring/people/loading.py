"""Read when people were last seen, and what they hold, in few statements."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, F, Max, Min, Q

from accounts.models import ApiToken, Membership, SshKey, User
from files.models import PlaceUsage
from jobs.models import Job
from jobs.states import JOB_ACTIVE
from monitoring.people.absence import Held, Person, find_away
from notebooks.models import Notebook
from quotas.models import RESOURCES, Quota

MOST_READ = 5000
"""Of people whose last sign-in is long ago; those longest away are read."""


def load_away(
    now: datetime, *, teams: Collection[int] | None = None, users: Iterable[int] | None = None
) -> list[Person]:
    """Return who is away and holds something.

    teams: of their members, and what they hold of these teams; homes are in no team. users: only these.
    """
    days = settings.TESSERA_AWAY_DAYS
    if days <= 0:
        return []
    held = _load_held(teams)
    who = User.objects.filter(pk__in=held if users is None else set(users) & set(held))
    limit = now - timedelta(days=days)
    who = who.filter(Q(last_login__isnull=True) | Q(last_login__lte=limit), joined_at__lte=limit)
    found = list(who.order_by(F("last_login").asc(nulls_first=True), "pk")[:MOST_READ])
    return find_away(_read_people(found, held), days, now)


def load_signed_in(users: Collection[User]) -> dict[int, datetime]:
    """Return when people were last seen by a page, a token or an SSH key, by id; nothing for who never was."""
    used = {user.pk: user.last_login for user in users if user.last_login is not None}
    for model in (ApiToken, SshKey):
        last = model.objects.filter(user__in=users, last_used_at__isnull=False).order_by().values_list("user")
        for pk, at in last.annotate(at=Max("last_used_at")):
            used[pk] = max(at, used.get(pk, at))
    return used


def _read_people(users: Collection[User], held: dict[int, Held]) -> list[Person]:
    ids, signed_in = [user.pk for user in users], load_signed_in(users)
    active = Count("pk", filter=Q(state__in=sorted(JOB_ACTIVE)))
    jobs = Job.objects.filter(user__in=ids).order_by().values_list("user")
    ran = {
        pk: times
        for pk, *times in jobs.annotate(Max("submitted_at"), Max("started_at"), Max("ended_at"), active=active)
    }
    never = [None, None, None, 0]
    return [_build_person(user, signed_in.get(user.pk), ran.get(user.pk, never), held[user.pk]) for user in users]


def _build_person(user: User, signed_in_at: datetime | None, ran: list, held: Held) -> Person:
    *times, active = ran
    return Person(
        user_id=user.pk,
        username=user.username,
        full_name=user.full_name,
        suspended=not user.is_active,
        joined_at=user.joined_at,
        signed_in_at=signed_in_at,
        ran_at=max((at for at in times if at is not None), default=None),
        runs=active > 0,
        held=held,
    )


def _load_held(teams: Collection[int] | None) -> dict[int, Held]:
    """Return what people hold who hold anything, by the person's id."""
    notebooks = Notebook.objects.live().order_by()
    guarantees = _load_guarantees(teams)
    if teams is None:
        members, homes = None, _load_homes()
    else:
        members, homes = set(Membership.objects.filter(team__in=teams).values_list("user", flat=True)), {}
        notebooks = notebooks.filter(team__in=teams)
    counts = dict(notebooks.values_list("user").annotate(Count("pk")))
    ids = {*counts, *homes, *guarantees}
    return {
        pk: Held(counts.get(pk, 0), homes.get(pk, 0), **guarantees.get(pk, {}))
        for pk in (ids if members is None else ids & members)
    }


def _load_homes() -> dict[int, int]:
    """Return the bytes of homes that have files, by the person's id."""
    sizes = PlaceUsage.objects.filter(kind="home", bytes__gt=0, files__gt=0)
    bytes_of = dict(sizes.values_list("number", "bytes"))
    return {pk: bytes_of[uid] for pk, uid in User.objects.filter(uid__in=bytes_of).values_list("pk", "uid")}


def _load_guarantees(teams: Collection[int] | None) -> dict[int, dict[str, int]]:
    """Return the guarantees of people who are alone in their team: nobody else can use those."""
    alone = (
        Membership.objects.order_by().values("team").annotate(members=Count("pk"), who=Min("user")).filter(members=1)
    )
    alone = alone if teams is None else alone.filter(team__in=teams)
    owner = {row["team"]: row["who"] for row in alone}
    found: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(RESOURCES, 0))
    given = Q(gpu_milli_guarantee__gt=0) | Q(cpu_milli_guarantee__gt=0) | Q(memory_mib_guarantee__gt=0)
    for quota in Quota.objects.filter(given, team__in=owner):
        for name, amount in zip(RESOURCES, quota.guarantees(), strict=True):
            found[owner[quota.team_id]][name] += amount
    return found
