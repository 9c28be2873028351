"""Small builders for rows, each with what a test does not care about filled in. Names are the cast's.

    nlp = make.team("nlp"); ada = make.user("ada", nlp); dev = make.pool("dev", shared=True)
    make.gpu(make.node(pool=dev)); make.quota(nlp, dev)
    job = make.job(ada, gpu="1/4"); make.start(job)

`make.cast()` builds the usual world at once. Everything that has a service goes through it, so rows are as in life.
"""

import os
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import time, timedelta
from importlib import import_module
from itertools import count
from types import SimpleNamespace
from typing import Literal

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.db.models import Model
from django.db.models.functions import Now
from django.utils import timezone

from accounts.models import ApiToken, Membership, Team, TeamRole, User
from accounts.scopes import SCOPES
from accounts.services import add_member, create_team, create_token, create_user
from cluster.agents import enrol_agent, invite_agent, take_report
from cluster.maintenance import save_maintenance
from cluster.models import Agent, Gpu, Maintenance, Node, Pool, Window
from common.resources import gpu_milli, parse_gpu, slice_of
from datasets.making import claim_versions, make_version
from datasets.models import DatasetVersion
from datasets.services import add_version
from events.record_and_publish import RUNTIME, SYSTEM
from files.models import Volume
from files.volumes import save_volume
from images.catalogue import save_image
from images.logins import save_login
from images.models import Image, Login
from job_templates.models import JobTemplate
from job_templates.services import create_template
from jobs.arrays.models import JobArray
from jobs.arrays.services import submit_array
from jobs.jobfile.parse import parse_spec
from jobs.lifecycle import TaskMove, move_tasks
from jobs.models import Job, Task
from jobs.states import TaskState
from jobs.submit import submit_job
from monitoring.alerts.round import ship_rules
from monitoring.alerts.services import make_silence
from monitoring.models import Alert, AlertRule, Silence, TaskUse
from quotas.models import Holding, Quota, UserLimit
from reported_numbers.growing import fold_tail, grow_series
from reported_numbers.models import Report, Series
from runtimes.storage.areas import AreaId, ensure_area, get_area_path
from scheduler.commit.starting import start_jobs
from scheduler.commit.steps import CardShare, StartJob, TaskStart
from scheduler.lease import acquire
from scheduler.models import Lease
from scheduler.preview.preview import check_possible
from schedules.models import Schedule
from schedules.services import create_schedule
from services.cold_starts import record_cold_start
from services.controlling import control_service
from services.in_flight import Loads
from services.keys import create_service_key
from services.models import Service
from services.services import create_service, revise_service
from services.traffic import find_bucket
from services.traffic_counts import ERRORS, REQUESTS, add_counts
from webhooks.models import Webhook
from webhooks.services import create_webhook

PASSWORD = "correct horse battery staple"
V100_32GB = {"model": "V100-32GB", "product": "Tesla V100-SXM2-32GB", "memory_mib": 32_768, "reserved_mib": 257}
POOL = {"high_priority": "free", "batch_is_preemptible": False}
NODE = {"cpu_milli": 16_000, "memory_mib": 65_536, "address": "127.0.0.1"}
GPU = {**V100_32GB, "simulated": True, "enforcement": "simulated"}
AGENT_KEY = "tag_" + "k" * 43

_numbers = count(1)


@dataclass
class Cast(SimpleNamespace):  # tests add what their world has besides
    """ada (member) and bob (lead) in team nlp, eve the stranger in vision; pools dev (shared) and train, both on n1."""

    ada: User
    bob: User
    eve: User
    nlp: Team
    vision: Team
    dev: Pool
    train: Pool
    node: Node
    gpus: list[Gpu]


def cast() -> Cast:
    """Nearly every second test makes it: in an empty database each table is written at once."""
    return make_cast_by_services() if _has_rows(Team, User, Pool, Node) else _write_cast()


def make_cast_by_services() -> Cast:
    """The same row by row."""
    nlp, vision = team("nlp"), team("vision")
    dev, train = pool("dev", shared=True), pool("train")
    n1 = node("n1", pool=dev)
    cards = [gpu(n1, pool=dev), gpu(n1, pool=train)]
    for someone in (nlp, vision):
        for place in (dev, train):
            quota(someone, place)
    ada, bob, eve = user("ada", nlp), user("bob", nlp, role=TeamRole.LEAD), user("eve", vision)
    return Cast(ada, bob, eve, nlp, vision, dev, train, n1, cards)


def _has_rows(*models: type[Model]) -> bool:
    first, *others = (model._default_manager.order_by().values("pk") for model in models)
    return first.union(*others, all=True).exists()


@transaction.atomic
def _write_cast() -> Cast:
    gids, uids = _free_numbers("team", settings.TESSERA_GID_RANGE), _free_numbers("home", settings.TESSERA_UID_RANGE)
    nlp, vision = Team.objects.bulk_create(Team(name=name, gid=next(gids)) for name in ("nlp", "vision"))
    ada, bob, eve = User.objects.bulk_create(
        User(username=name, uid=next(uids), password=make_password(None)) for name in ("ada", "bob", "eve")
    )
    members = (ada, nlp, TeamRole.MEMBER), (bob, nlp, TeamRole.LEAD), (eve, vision, TeamRole.MEMBER)
    Membership.objects.bulk_create(Membership(user=user, team=team, role=role) for user, team, role in members)
    dev, train = Pool.objects.bulk_create(Pool(**POOL, name=name, shared=name == "dev") for name in ("dev", "train"))
    n1 = Node.objects.create(name="n1", pool=dev, **NODE)
    cards = Gpu.objects.bulk_create(
        Gpu(node=n1, pool=place, index=index, uuid=f"GPU-n1-{index}", **GPU) for index, place in enumerate((dev, train))
    )
    Quota.objects.bulk_create(Quota(team=someone, pool=place) for someone in (nlp, vision) for place in (dev, train))
    return Cast(ada, bob, eve, nlp, vision, dev, train, n1, cards)


def _free_numbers(kind: Literal["home", "team"], bounds: tuple[int, int]) -> Iterator[int]:
    """Of accounts and groups whose files no test before left."""
    numbers = range(bounds[0], bounds[1] + 1)
    return (number for number in numbers if not get_area_path(settings.TESSERA_FILES, AreaId(kind, number)).exists())


def team(name: str = "nlp", **fields) -> Team:
    return Team.objects.filter(name=name).first() or create_team(name=name, **fields)


def user(name: str = "ada", *teams: Team, role: str = TeamRole.MEMBER, password: str | None = None, **fields) -> User:
    """Without a password nobody signs in with one: pass make.PASSWORD (hashing is slow), or use client.force_login."""
    person = create_user(username=name, password=password, **fields)
    for one in teams:
        add_member(user=person, team=one, role=role)
    return person


def admin(name: str = "rita", **fields) -> User:
    return user(name, platform_role="admin", **fields)


def token(person: User, *scopes: str, days: int = 90) -> str:
    """The secret of a new token: of all scopes where none is named."""
    return create_token(user=person, name="test", scopes=list(scopes or SCOPES), days=days)[1]


def expired_token(person: User) -> str:
    secret = token(person)
    ApiToken.objects.filter(user=person).update(expires_at="2020-01-01T00:00Z")
    return secret


def session(person: User) -> str:
    """The key of a session in which they are signed in, for sockets; a client has force_login."""
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY], store[BACKEND_SESSION_KEY] = str(person.pk), settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = person.get_session_auth_hash()
    store.create()
    return store.session_key


def ssh_key(seed: int = 1) -> str:
    """The line of a public Ed25519 key that no private key is known for."""
    kind, point = b"ssh-ed25519", seed.to_bytes(32, "big")
    blob = len(kind).to_bytes(4, "big") + kind + len(point).to_bytes(4, "big") + point
    return f"ssh-ed25519 {b64encode(blob).decode()} ada@laptop"


def webhook(person: User, team: Team | None = None, *topics: str, name: str = "ci") -> Webhook:
    return create_webhook(actor=person, name=name, url="https://example.com/hook", topics=list(topics), team=team)[0]


def schedule(person: User, **values) -> Schedule:
    """Of a job each night in pool dev, by UTC."""
    usual = {"name": "nightly", "job_file": "run: python train.py\nteam: nlp\npool: dev\n", "cron": "30 2 * * *"}
    able = {"check": check_possible, "containers": True}
    return create_schedule(user=person, **able, **{**usual, "zone": "UTC", **values})


def template(person: User, team: Team | None, name: str = "finetune") -> JobTemplate:
    """A template with one parameter that has a default."""
    head = f"template:\n  name: {name}\n  description: Trains.\n  parameters: {{lr: {{type: number, default: 1e-3}}}}\n"
    return create_template(actor=person, team=team, text=f"{head}run: python train.py ${{{{ lr }}}}\n")


def files(person: User, contents: dict[str, str], folder: str = "corpus") -> None:
    """Files in their home, as they would write them."""
    home = ensure_area(settings.TESSERA_FILES, AreaId("home", person.uid), uid=None, gid=None)
    for name, content in contents.items():
        path = home / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    if os.geteuid() == 0:
        for path in (home, home / folder, *(home / folder).rglob("*")):
            os.chown(path, person.uid, person.uid)


def make_versions() -> None:
    """Make the versions that were asked for, in this process."""
    for pk, holder in claim_versions():
        make_version(pk, holder)


def dataset(person: User, name: str = "corpus", versions: int = 1, **fields) -> DatasetVersion:
    """The newest of so many further versions, each with a file that no other has."""
    team = person.teams.get()
    for _ in range(versions):
        files(person, {"same.txt": "same", "words.txt": f"{name} {next(_numbers)}"}, name)
        add_version(actor=person, team=team, name=name, place="home", path=name, **fields)
        make_versions()
    return DatasetVersion.objects.select_related("dataset__team").latest("pk")


def environment(person: User, name: str, folder: str) -> DatasetVersion:
    """The next version of an environment, of a folder of their home."""
    made = add_version(actor=person, team=person.teams.get(), name=name, place="home", path=folder, kind="environment")
    make_versions()
    return made


def alert(code: str, label: str = "n1:0", **fields) -> Alert:
    """One of a rule that ships, firing since now."""
    ship_rules()
    usual = {"subject_id": next(_numbers), "state": "FIRING", "since": timezone.now(), "judged_at": timezone.now()}
    return Alert.objects.create(rule=AlertRule.objects.get(code=code), label=label, **{**usual, **fields})


def silence(person: User, rule: AlertRule) -> Silence:
    return make_silence(actor=person, rule=rule, until=timezone.now() + timedelta(hours=1), reason="secret-plan")


def image(person: User, team: Team | None = None, alias: str = "torch", reference: str = "nlp/train:3") -> Image:
    """A line of the catalogue."""
    return save_image(actor=person, image=Image(alias=alias, reference=reference, team=team))


def volume(
    person: User, team: Team | None = None, name: str = "imagenet", source: str = "/data/imagenet", **fields
) -> Volume:
    """Storage of the site that jobs may name."""
    return save_volume(actor=person, volume=Volume(name=name, source=source, team=team, **fields))


def login(person: User, team: Team | None = None, password: str = "s3cret") -> Login:
    """At a registry."""
    row = Login(registry="registry.corp:5000", user="robot", team=team)
    return save_login(actor=person, login=row, password=password)


def pool(name: str = "dev", **fields) -> Pool:
    """High priority costs nothing there, and jobs borrow only where they say so, if nothing else is said."""
    return Pool.objects.filter(name=name).first() or Pool.objects.create(name=name, **POOL | fields)


def window(lender: Pool, borrower: Pool, **fields) -> Window:
    """Around the clock, if nothing else is said."""
    always = {"weekdays": "1234567", "begins": time(0), "ends": time(0)}
    return Window.objects.create(lender=lender, borrower=borrower, **always | fields)


def maintenance(*nodes: Node, begins_in_s: float = 0, lasts_s: float = 3600, **fields) -> Maintenance:
    """Of these machines, or of `pool=`."""
    begins = timezone.now() + timedelta(seconds=begins_in_s)
    times = {"begins_at": begins, "ends_at": begins + timedelta(seconds=lasts_s)}
    return save_maintenance(actor=SYSTEM, maintenance=Maintenance(**times | fields), nodes=nodes)


def node(name: str = "n1", *, pool: Pool, **fields) -> Node:
    return Node.objects.create(name=name, pool=pool, **NODE | fields)


def gpu(node: Node, *, pool: Pool | None = None, **fields) -> Gpu:
    """A simulated V100-32GB on the node's next index."""
    index = node.gpus.count()
    usual = {**GPU, "index": index, "uuid": f"GPU-{node.name}-{index}"}
    return Gpu.objects.create(node=node, pool=pool or node.pool, **usual | fields)


def quota(team: Team, pool: Pool, **fields) -> Quota:
    """No limit and no guarantee, unless they are given."""
    return Quota.objects.create(team=team, pool=pool, **fields)


def limit(person: User, **fields) -> UserLimit:
    """The person's own limits: `make.limit(ada, jobs_waiting=1)`."""
    return UserLimit.objects.update_or_create(user=person, defaults=fields)[0]


def job(person: User, *, check=lambda draft: None, **spec) -> Job:
    """A job in the queue. spec: keys of the job file; it runs `true` unless told. Nothing judges whether it fits."""
    usual = {} if "roles" in spec else {"run": "true"}
    spec = {**usual, "name": f"job {next(_numbers)}", **spec}
    return submit_job(user=person, spec=parse_spec(spec), check=check, containers=True)


def array(person: User, array: object = 3, **spec) -> JobArray:
    """An array in pool dev, with its first element; a sweep where there is a `search`."""
    wish = {} if "search" in spec else {"array": array}
    file = {"run": "true", "name": "sweep", "team": "nlp", "pool": "dev", **spec, **wish}
    return submit_array(user=person, spec=parse_spec(file), check=lambda draft: None, containers=True)


def start(job: Job, *cards: Gpu, node: Node | None = None, state: str = TaskState.RUNNING) -> list[Task]:
    """Put the job's tasks on `cards` (all on each task that asks for any; else the pool's first card) by the real
    allocating transaction, and move them on to `state`."""
    requests = {role["role"]: role["request"] for role in job.gang}
    places = [_place(task, requests[task.role], job.pool, cards, node) for task in job.newest_tasks]
    epoch = Lease.objects.get_or_create(name="cycle", defaults={"epoch": 1})[0].epoch
    start_jobs([StartJob(job.pk, tuple(places), revision=job.revision)], epoch)
    return [move(task, state) for task in job.newest_tasks]


def lead() -> int:
    """The epoch of the one who leads the reconciler, who is one and the same in a test."""
    known = Lease.objects.filter(name="reconcile").first()
    return known.epoch if known else acquire("reconcile")


def move(task: Task, state: str, reason: str = "", **also) -> Task:
    """As the runtime would: `make.move(task, TaskState.FAILED, "exit_nonzero", exit_code=1)`."""
    if task.state != state:
        task.job.refresh_from_db()
        move_tasks([TaskMove(task, state, reason, also=also)], actor=RUNTIME)
    return task


def use(
    task: Task, *, hours: float = 10, busy: float = 0.6, peak: float = 0.75, idle: float = 0, seen: float = 1
) -> None:
    """Say that a running task began hours ago, and what it did since. As parts: busy of the cards' time, peak of what
    it holds, idle at the end and seen of its time."""
    begun, ms = timezone.now() - timedelta(hours=hours), round(3_600_000 * hours)
    Task.objects.filter(pk=task.pk).update(started_at=begun, assigned_at=begun)
    Job.objects.filter(pk=task.job_id).update(started_at=begun)
    held = Holding.objects.filter(task=task.uuid)
    held.update(held_from=begun)
    seen_ms, idle_ms = round(ms * seen), round(ms * idle)
    usual = {"run": "r", "up_ms": ms, "at": timezone.now(), "source": "simulated", "seen_ms": seen_ms}
    for row in held:
        memory = row.gpu_memory_mib or row.memory_mib
        did: dict = {"cpu_ms": round(ms * busy * row.cpu_milli / 1000)}
        if row.gpu_id is not None:
            did = {"busy_ms": round(ms * busy * row.gpu_compute_percent / 100), "active_ms": seen_ms - idle_ms}
            did |= {"idle_ms": idle_ms, "low_ms": idle_ms}
        TaskUse.objects.update_or_create(holding=row, defaults={**usual, **did, "peak_mib": round(memory * peak)})


def end(job: Job, state: str = TaskState.SUCCEEDED, reason: str = "completed", exit_code: int | None = 0) -> Job:
    for task in job.newest_tasks:
        move(task, state, reason, exit_code=exit_code)
    return Job.objects.get(pk=job.pk)


def _place(task: Task, request: dict, pool: Pool, cards: tuple[Gpu, ...], node: Node | None) -> TaskStart:
    ask = parse_gpu(request["gpu"])
    used = (list(cards) or list(Gpu.objects.filter(pool=pool)[: ask.count])) if ask.count else []
    home = node or (used[0].node if used else Node.objects.filter(pool=pool).first())
    held = tuple(_card(ask, card) for card in used)
    return TaskStart(task.rank, home.pk, held, request["cpu_milli"], request["memory_mib"])


def reported_gpu(number: int = 0, **fields) -> dict:
    """A card as an agent reports it."""
    name = {"uuid": f"GPU-{number:08x}-0000", "index": number, "numa": None, "bus": "", "mig": False, "fault": ""}
    return {**name, **V100_32GB, **fields}


def report(*gpus: dict, **fields) -> dict:
    """What an agent says of a machine with these cards, as `take_report` stores it."""
    links = [["X" if i == j else "PHB" for j in range(len(gpus))] for i in range(len(gpus))]
    host = {"boot_id": "boot", "kernel": "6.1", "cpu_milli": 64_000, "memory_mib": 262_144, "numa": []}
    said = {"agent": "0.1.0", "host": host, "driver": "580.95.05", "simulated": False, "lost": [], "samples": []}
    return {**said, "gpus": list(gpus), "links": links, "pcie": links, **fields}


def agent(node: Node | str = "n1", said: dict | None = None, key: str = AGENT_KEY) -> Agent:
    """Enrolled with `key`, after its first report where one is given."""
    name = node if isinstance(node, str) else node.name
    _, token = invite_agent(actor=SYSTEM, node_name=name)
    row = enrol_agent(token=token, key=key)
    if said is not None:
        take_report(row, said)
        row.refresh_from_db()
    return row


def _card(ask, card: Gpu) -> CardShare:
    share = slice_of(ask, card.sellable_mib)
    return CardShare(card.pk, share.memory_mib, share.compute_percent, gpu_milli(share, card.sellable_mib))


def numbers(task: Task, name: str, *told: tuple[float, float]) -> Series:
    """Numbers of a name that a task reported, as after a look at its file. told: (step, value)."""
    Report.objects.get_or_create(task=task)
    series = Series.objects.filter(task=task, name=name).first() or Series(task=task, name=name)
    grow_series(series, told, timezone.now())
    fold_tail(series)
    series.save()
    return series


SERVICE_FILE = """
kind: service
name: {name}
run: python serve.py
gpu: 1/4
{where}
serve: {{port: 7860, replicas: {replicas}, target: 2, hold: {{requests: 3, for: {hold}}}, access: {access}}}
"""


USUAL_SERVICE = {"name": "chat", "replicas": "0..4", "access": "team", "hold": "3m", "where": "pool: dev"}


def service(person: User, name: str = "chat", **said: str) -> Service:
    """One that nobody has called yet, and whose controller has not looked at it. said: of USUAL_SERVICE."""
    job_file = SERVICE_FILE.format(**USUAL_SERVICE | {"name": name} | said)
    return create_service(user=person, job_file=job_file, check=lambda draft: None, containers=False)


def canary(service: Service, job_file: str, errors: int = 1) -> None:
    """Let a new file of a service be a canary that got 30 requests, beside 300 of the good revision."""
    abilities = {"check": lambda draft: None, "containers": False}
    revise_service(actor=service.user, service=service, job_file=job_file, **abilities)
    now = timezone.now()
    since = now - timedelta(seconds=30)
    Service.objects.filter(pk=service.pk).update(canary_since=since)
    service.refresh_from_db()
    for revision, requests, failed in ((service.current_id, 300, 0), (service.rollout_id, 30, errors)):
        counts = {REQUESTS: requests, ERRORS: failed, find_bucket(0.002): requests}
        add_counts({(service.pk, revision, what): n for what, n in counts.items()}, now.timestamp())


def replica(service: Service) -> Task:
    """The running task of one more replica, whose program answers."""
    before = list(service.replicas.values_list("pk", flat=True))
    loads = Loads({service.pk: 2 * len(before) + 1})
    control_service(service.pk, loads, check=lambda draft: None, containers=False)
    made = service.replicas.exclude(pk__in=before).get()
    [task] = start(made.job)
    service.replicas.filter(pk=made.pk).update(ready_task=task.uuid, ready_at=Now())
    task.refresh_from_db()
    record_cold_start(made, task, timezone.now())
    return task


def service_key(service: Service, name: str = "test", **limits: int) -> str:
    """The secret of a new key."""
    return create_service_key(actor=service.user, service=service, name=name, **limits)[1]
