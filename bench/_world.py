"""The large world whose pages bench/pages.py asks for: jobs of every state, machines full of them, teams with quota.

Rows as the services make them, but in bulk: a few jobs and notebooks are made by the book and then copied. What loops
of the platform keep (places in the queue, reasons, forecasts, sums of days) is written by these loops themselves.
"""

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from django.conf import settings
from django.db import connection, models
from django.utils import timezone

from accounts.announcements import save_announcement
from accounts.models import Announcement, PlatformRole, Team, User
from accounts.scopes import SCOPES
from accounts.services import create_token
from accounts.ssh_keys import add_ssh_key
from bench.cycle import CARDS, Model, build_machines, build_models, copy_of, one_round, run_in_bulk
from cluster.maintenance import save_maintenance
from cluster.models import Agent, Gpu, HighPriority, Maintenance, Node, Pool
from common.resources import parse_gpu
from events.models import Notice
from events.record_and_publish import SYSTEM
from files.models import Volume
from files.volumes import save_volume
from images.catalogue import save_image
from images.models import Image
from jobs.models import Job, Task
from jobs.states import HOLDING, JobState, TaskState
from monitoring.alerts.round import ship_rules
from monitoring.models import Alert, AlertRule, CardNow, NodeCheck, NodeNow, PackedUntil, TaskNow, TaskUse
from monitoring.models.checks import CheckState
from monitoring.reports.days import settle_days
from monitoring.series.keys import COLUMNS, Key, Kind
from monitoring.series.store import Block, write_blocks
from monitoring.series.tiers import FINE
from notebooks.environment import READY, environment_path
from notebooks.services import create_notebook, start_notebook
from quotas.models import Holding, Quota
from scheduler.core.cycle import run_cycle
from scheduler.lease import lead
from scheduler.loading.snapshots import load_world
from scheduler.preview.forecast_recorder import record_forecasts
from tests import make
from webhooks.services import create_webhook

PEOPLE, DAYS, BATCH = 3, 30, 2000
NOTEBOOKS, NOTICES, ALERTS = 240, 5000, 40
NAMES = ("llama-sft", "resnet-sweep", "clip-pretrain", "tokenize", "eval", "reward-model")
ENDS = (
    (JobState.SUCCEEDED, TaskState.SUCCEEDED, "completed", 0, 75),
    (JobState.FAILED, TaskState.FAILED, "exit_nonzero", 1, 15),
    (JobState.CANCELLED, TaskState.STOPPED, "stopped_by_user", None, 10),
)
"""(state of the job, of its tasks, reason, exit code, how often in a hundred)"""
CHECKS = ("disk", "clock", "driver", "heat")
AGE_JOBS = """
UPDATE jobs_job SET submitted_at = now() - age, eligible_at = now() - age, queued_at = now() - age,
    started_at = CASE WHEN started_at IS NULL THEN NULL ELSE now() - age / 2 END
FROM (SELECT id AS aged, random() * interval '20 hours' AS age FROM jobs_job WHERE ended_at IS NULL) ages
WHERE id = aged
"""
AGE_TASKS = """
UPDATE jobs_task SET assigned_at = j.started_at, started_at = j.started_at
FROM jobs_job j WHERE j.id = job_id AND j.ended_at IS NULL AND j.started_at IS NOT NULL
"""
PLACE_TASKS = """
UPDATE jobs_task SET node_id = held.node_id, cards = held.cards
FROM (
    SELECT h.task, min(h.node_id) AS node_id, coalesce(json_agg(json_build_object(
        'uuid', g.uuid, 'index', g.index, 'model', g.model, 'memory_mib', h.gpu_memory_mib,
        'compute_percent', h.gpu_compute_percent, 'whole', h.gpu_milli = 1000, 'simulated', true,
        'enforcement', g.enforcement
    ) ORDER BY g.index) FILTER (WHERE g.id IS NOT NULL), '[]'::json) AS cards
    FROM quotas_holding h LEFT JOIN cluster_gpu g ON g.id = h.gpu_id GROUP BY h.task
) held
WHERE uuid = held.task
"""
AGE_HOLDINGS = """
UPDATE quotas_holding SET held_from = t.started_at
FROM jobs_task t WHERE t.uuid = task AND released_at IS NULL AND t.started_at IS NOT NULL
"""


@dataclass(frozen=True)
class Size:
    """jobs: all of them, of which about `running` run and `waiting` wait."""

    machines: int
    teams: int
    jobs: int
    running: int
    waiting: int


@dataclass(frozen=True)
class World:
    """Two people with much going, each of a team of their own."""

    admin: User
    member: User

    @property
    def people(self) -> dict[str, User]:
        return {"as an admin": self.admin, "as a member": self.member}


def build_world(size: Size, dice: random.Random) -> World:
    """Fill an empty, migrated database."""
    pools = {name: Pool.objects.get_or_create(name=name)[0] for name in ("train", "dev")}
    Pool.objects.update(high_priority=HighPriority.FREE, batch_is_preemptible=False)
    Pool.objects.filter(name="dev").update(shared=True)
    build_machines(size.machines, pools)
    shapes = build_models(pools, dice, size.teams, PEOPLE)
    guarantee = int(1000 * CARDS * size.machines * 0.8 * 0.6 / size.teams)
    Quota.objects.filter(pool=pools["train"]).update(gpu_milli_guarantee=guarantee)
    member, admin = shapes[0].people[0], shapes[-1].people[0]
    User.objects.filter(pk=admin.pk).update(platform_role=PlatformRole.ADMIN)
    admin.refresh_from_db()
    Jobs(shapes, {member.pk, admin.pk}, dice).fill(size)
    write_samples(dice)
    write_curves(np.random.default_rng(1))
    write_numbers((admin, member), dice)
    write_rest(admin, member, shapes[0].job.team, dice)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return World(admin, member)


class Jobs:
    """Makes jobs of all states, more of them of the two people whose pages are asked for."""

    def __init__(self, models: list[Model], favoured: set[int], dice: random.Random):
        self.models, self.favoured, self.dice = models, favoured, dice

    def fill(self, size: Size) -> None:
        """Past ones first; then those that run, large ones sooner, so that few fill all; then those that wait."""
        self.add_past(size.jobs - size.running - size.waiting)
        make_notebooks({model.people[0] for model in [*self.models[:NOTEBOOKS], self.models[-1]]})
        self.add(size.running - Job.objects.waiting().count() // 2, power=0.5)
        start_what_fits()
        while (missing := size.waiting - Job.objects.waiting().count()) > 0:
            self.add(missing)
            start_what_fits()
        settle_rows()
        with lead("cycle") as epoch:
            assert epoch is not None
            one_round(epoch)
        record_forecasts()

    def add(self, count: int, power: float = 0.0) -> None:
        """Submit so many. power: of their number of cards, by which they come more often; 0: all alike."""
        chosen = self._choose(count, power)
        rows = [self._copy(model) for model in chosen]
        jobs = Job.objects.bulk_create(rows, batch_size=BATCH)
        copies = [copy_of(task, job=job) for model, job in zip(chosen, jobs, strict=True) for task in model.tasks]
        Task.objects.bulk_create(copies, batch_size=BATCH)

    def add_past(self, count: int) -> None:
        """Jobs that ended within the last days, with what their tasks held."""
        chosen, now = self._choose(count, power=-0.5), timezone.now()
        jobs = [self._copy(model) for model in chosen]
        for job in jobs:
            end_job(job, now - timedelta(days=DAYS * self.dice.random()), self.dice)
        jobs = Job.objects.bulk_create(jobs, batch_size=BATCH)
        places = {pool.pk: list_places(pool) for pool in Pool.objects.all()}
        tasks, holdings = [], []
        for model, job in zip(chosen, jobs, strict=True):
            for copy in (copy_of(task, job=job) for task in model.tasks):
                node, gpus = self.dice.choice(places[job.pool_id])
                holdings += end_task(copy, job, node, gpus)
                tasks.append(copy)
        Task.objects.bulk_create(tasks, batch_size=BATCH)
        Holding.objects.bulk_create(holdings, batch_size=BATCH)

    def _choose(self, count: int, power: float) -> list[Model]:
        weights = [max(count_cards(one.job), 1) ** power * (1 + 5 * self._is_favoured(one)) for one in self.models]
        return self.dice.choices(self.models, weights, k=max(count, 0))

    def _copy(self, model: Model) -> Job:
        """Of a favoured team every second job is of that person."""
        owner = model.people[0] if self._is_favoured(model) and self.dice.random() < 0.5 else None
        job = copy_of(model.job, user=owner or self.dice.choice(model.people))
        job.name = f"{self.dice.choice(NAMES)}-{self.dice.randrange(100)}"
        return job

    def _is_favoured(self, model: Model) -> bool:
        return model.people[0].pk in self.favoured


def count_cards(job: Job) -> int:
    return sum(parse_gpu(role["request"]["gpu"]).count for role in job.gang) * job.size


def start_what_fits() -> None:
    world = load_world()
    run_in_bulk(world, run_cycle(world.snapshot, world.policy, time.time()).starts)


def list_places(pool: Pool) -> list[tuple[Node, list[Gpu]]]:
    nodes = Node.objects.filter(pool=pool).prefetch_related("gpus")
    return [(node, list(node.gpus.all())) for node in nodes]


def end_job(job: Job, ended: datetime, dice: random.Random) -> None:
    """Let it have waited and run for some hours until then."""
    job.state, _state, job.reason, job.exit_code, _often = dice.choices(ENDS, [end[-1] for end in ENDS])[0]
    job.ended_at = ended
    job.started_at = ended - timedelta(hours=dice.expovariate(0.5))
    job.submitted_at = job.queued_at = job.started_at - timedelta(hours=dice.expovariate(1))


def end_task(task: Task, job: Job, node: Node, gpus: list[Gpu]) -> list[Holding]:
    """Let it have run on the first cards of a machine as long as its job did; return what it held."""
    task.state = next(end[1] for end in ENDS if end[0] == job.state)
    task.reason, task.exit_code, task.node = job.reason, job.exit_code, node
    task.assigned_at = task.started_at = job.started_at
    task.ended_at = job.ended_at
    ask = parse_gpu(job.gang[0]["request"]["gpu"])
    whose = {"task": task.uuid, "team_id": job.team_id, "user_id": job.user_id, "pool_id": job.pool_id, "node": node}
    whose |= {"held_from": job.started_at, "released_at": job.ended_at}
    cards = gpus[: ask.count]
    milli = 250 if ask.is_slice else 1000
    part = {"gpu_milli": milli, "gpu_memory_mib": 81_559 * milli // 1000, "gpu_compute_percent": milli // 10}
    main = Holding(**whose, cpu_milli=4000, memory_mib=16_384)
    return [main, *(Holding(**whose, gpu=gpu, **part) for gpu in cards)]


def make_notebooks(people: Iterable[User]) -> None:
    """Two for each, one of which is started, as if JupyterLab were installed."""
    environment = environment_path(settings.TESSERA_DATA)
    environment.mkdir(parents=True)
    (environment / READY).touch()
    for person in people:
        create_notebook(user=person, name="evening", gpu="1/4")
        notebook = create_notebook(user=person, name="explore", gpu="1/4")
        start_notebook(actor=person, notebook=notebook, check=lambda draft: None, containers=False)


def settle_rows() -> None:
    """Let open jobs have come and started one after the other, in the last day; tell each task its place."""
    with connection.cursor() as cursor:
        cursor.execute(PLACE_TASKS)
        cursor.execute(AGE_JOBS)
        cursor.execute(AGE_TASKS)
        cursor.execute(AGE_HOLDINGS)


def write_samples(dice: random.Random) -> None:
    """What cards, machines and tasks did last, and what each holding was used for until now."""
    now = timezone.now()
    common = {"at": now, "term": 1, "up_ms": 3_600_000}
    nodes, gpus = list(Node.objects.all()), list(Gpu.objects.all())
    busy = {gpu.uuid: 100 * dice.random() ** 0.5 for gpu in gpus}
    card = {"source": "simulated", "used_mib": 40_000, "temperature_c": 61, "power_w": 450}
    save(CardNow(gpu=gpu, busy_percent=busy[gpu.uuid], **card, **common) for gpu in gpus)
    save(NodeNow(node=node, run="r", use={"cpu_milli": 90_000, "memory_mib": 400_000}, **common) for node in nodes)
    save(Agent(node_name=node.name, digest=node.name, reported_at=now, logs_at=now) for node in nodes)
    states = [CheckState.OK] * 19 + [CheckState.WARN]
    save(NodeCheck(node=node, name=name, state=dice.choice(states)) for node in nodes for name in CHECKS)
    tasks = list(Task.objects.filter(state__in=HOLDING))
    usual = {"cpu_milli": 3000, "memory_mib": 9000, **common}
    save(TaskNow(task=task, shares=show_shares(task, busy), **usual) for task in tasks)
    save(build_use(holding, now, dice) for holding in Holding.objects.all())
    settle_days()


def show_shares(task: Task, busy: dict[str, float]) -> list[dict]:
    share = {"source": "simulated", "used_mib": 30_000, "up_ms": 3_600_000}
    return [{"uuid": one["uuid"], "busy_percent": busy[one["uuid"]], **share} for one in task.cards]


def build_use(holding: Holding, now: datetime, dice: random.Random) -> TaskUse:
    ms = round(1000 * ((holding.released_at or now) - holding.held_from).total_seconds())
    use = TaskUse(holding=holding, run="r", up_ms=ms, at=now, source="simulated", seen_ms=ms, cpu_ms=ms)
    if holding.gpu_id:
        part = dice.random() ** 0.5
        use.busy_ms, use.active_ms, use.idle_ms = (round(ms * one) for one in (part, part, 1 - part))
        use.peak_mib = round(holding.gpu_memory_mib * dice.random())
    return use


def write_curves(noise: np.random.Generator) -> None:
    """The last two hours of what runs, of the cards and of the pools."""
    now = timezone.now()
    hour = now.replace(minute=0, second=0, microsecond=0)
    gpus = {gpu.uuid: gpu.pk for gpu in Gpu.objects.all()}
    tasks = Task.objects.filter(state__in=HOLDING)
    keys = [Key(Kind.SHARE, task.pk, gpus[card["uuid"]]) for task in tasks for card in task.cards]
    keys += [Key(Kind.TASK, task.pk) for task in tasks] + [Key(Kind.CARD, pk) for pk in gpus.values()]
    keys += [Key(Kind.POOL, pool.pk) for pool in Pool.objects.all()]
    for start in (hour - timedelta(hours=1), hour):
        known = min(int((now - start).total_seconds()) // FINE.step_s, 360)
        write_blocks(FINE, {key: build_block(key, known, noise) for key in keys}, start)
    PackedUntil.objects.update_or_create(tier=FINE.name, defaults={"until": hour + timedelta(hours=1)})


def build_block(key: Key, known: int, noise: np.random.Generator) -> Block:
    means = noise.normal(5000, 400, (len(COLUMNS[key.kind]), 360)).clip(0, 10_000)
    means[:, known:] = np.nan
    return Block(means, means, "simulated")


def write_numbers(people: Iterable[User], dice: random.Random) -> None:
    """Curves of what their newest jobs report, as long as curves become."""
    for person in people:
        for job in Job.objects.filter(user=person, state=JobState.RUNNING).of_kind("").order_by("-pk")[:2]:
            for task in job.newest_tasks[:8]:
                for name in ("loss", "val/acc", "lr"):
                    make.numbers(task, name, *((step, dice.random()) for step in range(3000)))


def write_rest(admin: User, member: User, team: Team, dice: random.Random) -> None:
    """What belongs to people, and what everybody is told."""
    for person in (admin, member):
        create_token(user=person, name="laptop", scopes=list(SCOPES))
        create_webhook(actor=person, name="ci", url="https://example.com/hook", topics=[], team=None)
        make.array(person, 40, team=person.teams.get().name, pool=None)
        make.schedule(person, job_file="run: python train.py\n")
        make.service(person, where="")
        make.template(person, person.teams.get())
        make.dataset(person, name=f"corpus-{person.username}")
    add_ssh_key(user=member, name="laptop", key=make.ssh_key())
    for number in range(30):
        make.template(member, team, name=f"train-{number}")
    for number in range(30):
        save_volume(actor=admin, volume=Volume(name=f"volume{number}", source=f"/data/volume{number}"))
        save_image(actor=admin, image=Image(alias=f"image{number}", reference=f"lab/image:{number}", team=None))
    make.login(admin)
    make.window(*Pool.objects.order_by("name")[:2], weekdays="", holidays="2100-01-01")
    begins = timezone.now()
    for text in ("The file server is slow today.", "New cards arrive on Monday."):
        save_announcement(actor=admin, announcement=Announcement(text=text, begins_at=begins))
    day = timedelta(days=1)
    save_maintenance(
        actor=SYSTEM,
        maintenance=Maintenance(begins_at=begins + day, ends_at=begins + 2 * day),
        nodes=Node.objects.all()[:20],
    )
    jobs = list(Job.objects.filter(ended_at__isnull=False)[:NOTICES])
    told = {"kind": "job_failed", "object_kind": "job", "params": {"reason": "exit_nonzero"}}
    save(Notice(user_id=job.user_id, object_id=job.pk, label=job.public_id, **told) for job in jobs)
    ship_rules()
    rule = AlertRule.objects.get(code="low_activity")
    firing = {"rule": rule, "state": "FIRING", "since": begins, "judged_at": begins, "teams": [team.pk]}
    save(Alert(subject_id=number, label=f"n{number}:0", owners=[member.pk], **firing) for number in range(ALERTS))


def save(rows: Iterable[models.Model]) -> None:
    """Insert rows of one kind."""
    kept = list(rows)
    if kept:
        type(kept[0])._default_manager.bulk_create(kept, batch_size=BATCH)
