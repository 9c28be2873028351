"""A world for generated requests: one of everything that the API can name, ada's, and the names by which it answers."""

import random
import shutil
import subprocess
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.db import transaction
from django.utils import timezone

from accounts.models import Announcement, Membership, TeamRole
from accounts.ssh_keys import add_ssh_key
from cluster.agents import check_agents
from cluster.models import Enrolment, Node, Pool
from common.secrets import digest_secret
from datasets.services import delete_version
from events.notices import notify
from files.file_areas import find_file_area
from files.uploads import append_upload, begin_upload
from jobs.code.upload import keep_code, pack_one_file
from jobs.models import Job
from jobs.states import TaskState
from monitoring.idle.rungs import Rung
from monitoring.models import Action, Alert, AlertRule, Exemption, IdleRule, IdleWatch, Price, Silence, Subject
from notebooks.environment import READY, environment_path
from notebooks.kept_packages import find_kept_folder
from notebooks.models import Notebook
from notebooks.services import create_notebook, start_notebook
from portal.models import SavedView
from secret_store.services import set_secret
from sharing.shares import share_job
from sharing.tokens import create_notebook_token
from tests import make

NEW_TEMPLATE = "template:\n  name: other\n  parameters: {lr: {type: number}}\nrun: python train.py ${{ lr }}\n"
NEW_SERVICE = make.SERVICE_FILE.format(**make.USUAL_SERVICE | {"name": "other"})
NEW_VERSION = NEW_TEMPLATE.replace("name: other", "name: finetune")
IDLE_ACTS = ("snooze", "nudge", "release")
NAMES = {
    "agents": "n1",
    "limits": "ada",
    "nodes": "n1",
    "people": "eve",
    "pools": "dev",
    "quotas": "nlp",
    "teams": "nlp",
}
FILES = {"notes.txt": b"some text\n", "data/table.csv": b"a,b\n1,2\n"}
AGENT_TOKEN = "ten_of-a-machine-that-comes"
RESIZE, SETTLE = "POST /api/v1/jobs/{job_id}:resize", "POST /api/v1/jobs/{job_id}:settle"
SHARE, END_SHARE = "POST /api/v1/jobs/{job_id}/shares", "DELETE /api/v1/jobs/{job_id}/shares/{person}"
SUFFICES = {
    "POST /api/v1/jobs": {"run": "true"},
    "POST /api/v1/jobs:plan": {"run": "true"},
    RESIZE: {"gpu": "1/2"},
    "PATCH /api/v1/jobs/{job_id}": {"priority": "low"},
    SHARE: {"person": "bob"},
    "PATCH /api/v1/notebooks/{notebook_id}": {"hours": 2},
    SETTLE: {"why": "its disk was replaced"},
    "POST /api/v1/notebooks": {"name": "lab", "gpu": "1/4"},
    "POST /api/v1/notebooks/{notebook_id}:clone": {"name": "copy"},
    "POST /api/v1/maintenance": {"nodes": ["n1"], "begins_at": "2100-01-01T00:00Z", "ends_at": "2100-01-02T00:00Z"},
    "POST /api/v1/agents:invite": {"node": "n2"},
    "POST /api/v1/agents:enrol": {"token": AGENT_TOKEN, "key": make.AGENT_KEY + "2"},
    "POST /api/v1/agents/{name}:report": make.report(),
    "POST /api/v1/agents/{name}:logs": {"logs": []},
    "POST /api/v1/agents/{name}:slices": {"slices": []},
    "POST /api/v1/gpus/{uuid}:cordon": {"why": "its fans are replaced"},
    "POST /api/v1/nodes/{name}:switch": {"switch": "leaf-1"},
    "POST /api/v1/volumes": {"name": "other", "source": "/data/other"},
    "POST /api/v1/images": {"alias": "other", "reference": "nlp/other:1"},
    "POST /api/v1/registries": {"registry": "other.corp", "user": "robot", "password": "s3cret"},
    "POST /api/v1/alert-rules": {
        "name": "hot",
        "subject": "card",
        "metric": "temperature_c",
        "comparison": "above",
        "threshold": 80,
        "audience": ["admin"],
    },
    "POST /api/v1/alerts:alertmanager": {"version": "4", "alerts": []},
    "POST /api/v1/silences": {
        "label": "n1:*",
        "until": (datetime.now(UTC) + timedelta(days=1)).isoformat(),
        "reason": "its fans are replaced",
    },
    "POST /api/v1/idle-rules": {"kind": "batch"},
    "POST /api/v1/idle-rules:preview": {"kind": "batch"},
    "POST /api/v1/prices": {"begins": "2026-01-01", "milli": 1250},
    "POST /api/v1/announcements": {"text": "New fans on Friday"},
    "POST /api/v1/files:move": {"place": "home", "path": "notes.txt", "to": "moved.txt"},
    "POST /api/v1/files/uploads": {"place": "home", "path": "new.bin", "size": 10},
    "POST /api/v1/me/ssh-keys": {"key": make.ssh_key(2), "name": "desk"},
    "POST /api/v1/me/views": {"name": "broken", "state": ["failed"]},
    "POST /api/v1/people": {"username": "newcomer"},
    "POST /api/v1/people:invite": {"team": "nlp"},
    "POST /api/v1/teams": {"name": "robots"},
    "POST /api/v1/teams/{name}/members": {"person": "eve"},
    "PATCH /api/v1/teams/{name}/members/{person}": {"role": "viewer"},
    "PATCH /api/v1/quotas/{name}/{pool}": {"gpu": {"limit": "1"}},
    "POST /api/v1/quotas:save": {"quotas": [{"team": "nlp", "pool": "dev", "weight": 2}]},
    "PATCH /api/v1/limits/{name}": {"gpu": "1/2"},
    "POST /api/v1/pools": {"name": "large"},
    "POST /api/v1/secrets": {"name": "HF_TOKEN", "value": "hf_1234567890"},
    "POST /api/v1/schedules": {
        "name": "weekly",
        "job_file": "run: 'true'\nteam: nlp\npool: dev\n",
        "cron": "0 6 * * 1",
    },
    "POST /api/v1/services": {"job_file": NEW_SERVICE},
    "PATCH /api/v1/services/{service_id}": {"job_file": make.SERVICE_FILE.format(**make.USUAL_SERVICE)},
    "POST /api/v1/services/{service_id}:scale": {"replicas": "0..2"},
    "POST /api/v1/datasets": {"name": "corpus", "path": "corpus"},
    "POST /api/v1/environments:build": {"name": "tools", "pip": ["numpy==2.1.0"], "pool": "dev"},
    "POST /api/v1/notebooks/{notebook_id}:save-environment": {"name": "tools"},
    "PATCH /api/v1/datasets/{dataset_id}": {"share": "private"},
    "PATCH /api/v1/schedules/{schedule_id}": {"cron": "0 6 * * 1"},
    "POST /api/v1/webhooks": {"name": "third", "url": "https://example.com/third", "topics": ["job.failed"]},
    "POST /api/v1/templates": {"file": NEW_TEMPLATE, "team": "nlp"},
    "POST /api/v1/templates/{template_id}/versions": {"file": NEW_VERSION},
    "POST /api/v1/jobs/{job_id}:rerun": {"exact": True},
    "POST /api/v1/windows": {"lender": "dev", "borrower": "train", "begins": "20:00", "ends": "08:00"},
}
"""Bodies that say what they must: nobody hits upon all of it at once. A job file is described as any names."""


def make_room(settings, folder) -> None:
    """Files, code and the environment for notebooks lie below `folder`."""
    settings.TESSERA_DATA, settings.TESSERA_FILES = folder, folder / "files"
    settings.TESSERA_CODE = folder / "code"
    settings.TESSERA_FILES.mkdir()
    environment_path(folder).mkdir(parents=True)
    (environment_path(folder) / READY).touch()


class World:
    """path, sent: {name of a parameter or field: values that mean something here}; only: {operation: such a path}."""

    def __init__(self, folder: Path) -> None:
        cast = make.cast()
        Node.objects.update(last_seen_at=timezone.now() + timedelta(hours=1))  # it is heard of as long as requests take
        Membership.objects.filter(user=cast.ada).update(role=TeamRole.LEAD)  # who may look at a team's logins
        self.ada, self.files, self.kept = cast.ada, folder / "files", folder / "kept"
        self.root = make.admin()
        webhook, schedule = make.webhook(cast.ada), make.schedule(cast.ada)
        template, service = make.template(cast.ada, cast.nlp), make.service(cast.ada)
        make.service_key(service)
        make.canary(service, make.SERVICE_FILE.format(**make.USUAL_SERVICE).replace("access: team", "canary: {}"))
        array = make.array(cast.ada, {"lr": ["1e-4", "3e-4"], "at_once": 1})
        element = array.elements.get()
        make.start(element)
        make.end(element, TaskState.FAILED, "exit_nonzero", 1)
        running = make.job(cast.ada, gpu="1/4", pool="dev", time="1h")
        make.start(running)
        share_job(actor=cast.ada, job=running, person="bob")
        stopped = make.job(cast.ada, pool="dev", name="stopped", labels={"exp": "a"})
        make.start(stopped)
        make.end(stopped, TaskState.FAILED, "exit_nonzero", 1)
        lost = make.job(cast.ada, pool="dev", name="lost")
        make.start(lost)
        make.move(lost.newest_tasks.get(), TaskState.LOST)
        waiting, others = make.job(cast.ada, gpu="1", pool="train"), make.job(cast.bob, gpu="1", pool="train")
        notices = [notify(user_id=cast.ada.pk, kind="job_failed", about=stopped, params={"name": "stopped"})]
        key = add_ssh_key(user=cast.ada, key=make.ssh_key(), name="laptop")
        upload = begin_upload(user=cast.ada, place="home", path="large.bin", size=1000)
        code = keep_code(user=cast.ada, pieces=[pack_one_file("train.py", b"print(1)\n")])
        image, login = make.image(self.root), make.login(self.root, cast.nlp)
        other_token = make.ApiToken.objects.filter(user=cast.ada)
        make.token(cast.ada, "jobs:read")
        still, works = _notebooks(cast.ada)
        notebook_token, _secret = create_notebook_token(actor=cast.ada, notebook=still, name="editor")
        tomorrow = make.maintenance(cast.node, begins_in_s=86_400)
        at_weekends = make.window(cast.dev, Pool.objects.get(name="train"), weekdays="67")
        agent = make.agent(cast.node, make.report(make.reported_gpu(0)))
        Enrolment.objects.create(
            node_name="n2", digest=digest_secret(AGENT_TOKEN), expires_at=timezone.now() + timedelta(hours=1)
        )
        rule, alerts, silence = _alerts(cast, running)
        idle_rule, exemption = _idle(cast, running)
        make.files(cast.ada, {"bin/python": ""}, find_kept_folder(still.public_id))
        deleted = make.dataset(cast.ada, versions=2)
        delete_version(actor=cast.ada, version=deleted)
        self.keep_files()
        self.path = {
            "job_id": [job.public_id for job in (running, stopped, lost, waiting, others)],
            "notebook_id": [still.public_id, works.public_id],
            "digest": [code.digest],
            "upload_id": [str(upload.uuid)],
            "secret_id": [set_secret(actor=cast.ada, name="HUB_TOKEN", value="hub-1234567890").pk],
            "template_id": [template.public_id],
            "webhook_id": [webhook.pk],
            "array_id": [array.public_id],
            "schedule_id": [schedule.public_id],
            "service_id": [service.public_id],
            "service_key_id": [service.keys.get().pk],
            "dataset_id": [deleted.dataset.public_id],
            "version": [1],
            "delivery_id": list(webhook.deliveries.values_list("pk", flat=True)),
            "token_id": [other_token.get().pk],
            "notebook_token_id": [notebook_token.pk],
            "key_id": [key.pk],
            "view_id": [SavedView.objects.create(user=cast.ada, name="failed", query="?state=failed").pk],
            "maintenance_id": [tomorrow.pk],
            "window_id": [at_weekends.pk],
            "image_id": [image.pk],
            "volume_id": [make.volume(self.root).pk],
            "login_id": [login.pk],
            "uuid": [cast.gpus[0].uuid],
            "rule_id": [rule.pk],
            "alert_id": [alert.pk for alert in alerts],
            "silence_id": [silence.pk],
            "idle_rule_id": [idle_rule.pk],
            "exemption_id": [exemption.pk],
            "announcement_id": [Announcement.objects.create(text="Hello", begins_at=timezone.now()).pk],
            "person": ["ada"],
            "pool": ["dev"],
            "price_id": [Price.objects.create(begins="2025-01-01", milli=1000).pk],
        }
        self.only = {
            RESIZE: {"job_id": [running.public_id]},
            SETTLE: {"job_id": [lost.public_id]},
            SHARE: {"job_id": [running.public_id]},
            "POST /api/v1/datasets/{dataset_id}/versions/{version}:restore": {"version": [deleted.number]},
            "POST /api/v1/notebooks/{notebook_id}:save-environment": {"notebook_id": [still.public_id]},
            END_SHARE: {"job_id": [running.public_id], "person": ["bob"]},
            "DELETE /api/v1/notebooks/{notebook_id}/tokens/{notebook_token_id}": {"notebook_id": [still.public_id]},
            "POST /api/v1/alerts/{alert_id}:acknowledge": {"alert_id": [alerts[-1].pk]},
            "POST /api/v1/alerts/{alert_id}:act": {"alert_id": [alerts[0].pk]},
            "POST /api/v1/alerts/{alert_id}:undo": {"alert_id": [alerts[1].pk]},
            "POST /api/v1/jobs/{job_id}:retry": {"job_id": [stopped.public_id]},
            **{f"POST /api/v1/idle/{{job_id}}:{act}": {"job_id": [running.public_id]} for act in IDLE_ACTS},
        }
        self.sent = {
            "team": ["nlp"],
            "other": [running.public_id],
            "pool": [pool.name for pool in Pool.objects.all()],
            "job": [running.public_id],
            "node": ["n1"],
            "person": ["eve"],
            "parent": ["vision", None],
            "place": ["home", "team:nlp"],
            "path": ["", "notes.txt", "data", "new.txt"],
            "to": ["moved.txt", "data/table.csv"],
            "ids": [self.path["job_id"], [notice.pk for notice in notices]],
            "gpu": ["0", "1/4"],
            "hours": [1],
            "why": ["its disk was replaced"],
            "task": ["", "main.0"],
            "days": [1],
            "confirm": [still.name],
            "scopes": [["jobs:read"]],
            "topics": [["job.failed"], []],
            "url": ["https://example.com/other"],
            "key": [make.ssh_key(2)],
            "state": ["running", "queued,failed"],
            "revision": [1, None],
            "label": ["exp:a"],
            "user": ["me"],
            "fields": ["id", "name,state", "name"],
            "nodes": [[cast.node.name]],
            "alias": ["torch", "own"],
            "reference": ["nlp/train:4"],
            "registry": ["registry.corp"],
            "weekdays": [[1, 2]],
            "zone": ["Europe/Berlin"],
            "seen": [check_agents([agent])[0].seen],
        }

    def bring_home(self, case, *, surely: bool) -> None:
        """In about two places of three what was made up gives way to what exists; surely: in all. The case alone
        decides in which, so that one case is always one request.
        """
        often, sufficing = (1.0, 1.0) if surely else (2 / 3, 1 / 3)
        dice = random.Random(repr((case.path_parameters, case.query, case.body)))
        collection = case.operation.path.removeprefix("/api/v1/").partition("/")[0]
        path = self.path | {"name": [NAMES.get(collection, "")]} | self.only.get(case.operation.label, {})
        for part, known in ((case.path_parameters, path), (case.query, self.sent), (case.body, self.sent)):
            if isinstance(part, dict):
                for name in sorted(part.keys() & known.keys()):
                    if dice.random() < often:
                        part[name] = dice.choice(known[name])
        if case.operation.label in SUFFICES and isinstance(case.body, dict) and dice.random() < sufficing:
            case.body = SUFFICES[case.operation.label]

    def keep_files(self) -> None:
        store = find_file_area(self.ada, "home").store
        store.make_folder("data")
        for path, content in FILES.items():
            upload = begin_upload(user=self.ada, place="home", path=path, size=len(content))
            append_upload(user=self.ada, uuid=upload.uuid, offset=0, pieces=[content])
        copy_tree(self.files, self.kept)

    @contextmanager
    def untouched(self, case):
        """What the request does is undone afterwards, so that the next one finds everything."""
        point = transaction.savepoint()
        try:
            yield
        finally:
            transaction.savepoint_rollback(point)
            if case.method != "GET" and any(part in case.path for part in ("/files", "/notebooks")):
                shutil.rmtree(self.files)
                copy_tree(self.kept, self.files)


def copy_tree(source: Path, target: Path) -> None:
    """With owners and modes."""
    subprocess.run(["cp", "-a", source, target], check=True)


def _notebooks(ada) -> list[Notebook]:
    """One that stands still, and one that runs and can be opened."""
    still, works = (create_notebook(user=ada, name=name, gpu="1/4") for name in ("still", "works"))
    start_notebook(actor=ada, notebook=works, check=lambda draft: None, containers=False)
    make.start(Job.objects.latest("pk"))
    Notebook.objects.filter(pk=works.pk).update(ready_at=timezone.now())
    return [still, works]


def _alerts(cast, job: Job) -> tuple[AlertRule, list[Alert], Silence]:
    """Of ada's machine, one that asks whether it may act, and one that did; and one of her job."""
    told = {"subject_id": cast.node.pk, "node": cast.node, "owners": [cast.ada.pk]}
    asks, did = make.alert("node_lost", acts="asks", **told), make.alert("node_disk", acts="done", **told)
    AlertRule.objects.filter(pk=asks.rule_id).update(action=Action.CORDON)
    own = make.alert("low_activity", subject_id=job.pk, label=job.public_id, owners=[cast.ada.pk], teams=[cast.nlp.pk])
    rule = AlertRule.objects.create(
        name="own", subject=Subject.CARD, metric="power_w", comparison="above", threshold=1, audience=["admin"]
    )
    return rule, [asks, did, own], make.silence(cast.ada, rule)


def _idle(cast, job: Job) -> tuple[IdleRule, Exemption]:
    now = timezone.now()
    IdleWatch.objects.create(job=job, finding="idle", since=now - timedelta(hours=1), rung=Rung.NOTED, rung_at=now)
    other = make.job(cast.ada, gpu="1/4", pool="dev", name="kept")
    exemption = Exemption.objects.create(job=other, by=cast.ada, reason="a demo", until=now + timedelta(hours=5))
    return IdleRule.objects.create(pool=cast.dev, kind="batch"), exemption
