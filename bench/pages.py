"""How long each page of the portal takes at 10,000 jobs, 1,000 machines of 8 cards and 200 teams.

bin/bench pages [--small] [--rounds 20] [--only home]. Asks the real web process for every page of the URL patterns, as
an admin and as a member, and prints p50 and p95 in milliseconds, the processor's time that a page cost (the web
process and the database together, which tell the same on a busy machine), its queries and its bytes. What loads
behind a page is told apart, without a goal. Exits 1 where a page misses its goal. --small: a tenth of everything.
--only: pages whose name begins so.
"""

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path

import django
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

django.setup()

from django.conf import settings  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import reverse  # noqa: E402

from accounts.models import User  # noqa: E402
from bench._world import Size, build_world  # noqa: E402
from cluster.models import Gpu, Maintenance, Node, Window  # noqa: E402
from datasets.models import Dataset  # noqa: E402
from files.models import Volume  # noqa: E402
from images.models import Image, Login  # noqa: E402
from job_templates.models import JobTemplate  # noqa: E402
from jobs.arrays.models import JobArray  # noqa: E402
from jobs.models import Job  # noqa: E402
from jobs.states import JOB_FINAL, JobState  # noqa: E402
from notebooks.models import Notebook  # noqa: E402
from portal.pages.jobs.detail import TABS  # noqa: E402
from portal.pages.reports.views import REPORTS  # noqa: E402
from portal.pages.urls import urlpatterns  # noqa: E402
from schedules.models import Schedule  # noqa: E402
from services.models import Service  # noqa: E402
from tests.make import session  # noqa: E402
from tests.web_process import running_web  # noqa: E402
from webhooks.models import Webhook  # noqa: E402

GOAL_P95_MS = 300
WHOLE = Size(machines=1000, teams=200, jobs=10_000, running=300, waiting=1500)
SMALL = Size(machines=100, teams=20, jobs=1000, running=60, waiting=150)
WARM_UP = 2
BEHIND = {"home": "rail", "notebook_new": "promises", "notebook": "promises"}
"""{page: the part of it that loads behind it}"""


@dataclass(frozen=True)
class Page:
    """A page as one person asks for it. part: the id of what htmx asks for alone, else ""."""

    name: str
    path: str
    part: str = ""
    queries: int = 0
    size: int = 0

    @property
    def headers(self) -> dict[str, str]:
        return {"HX-Request": "true", "HX-Target": self.part} if self.part else {}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/bench pages", description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    call_command("migrate", verbosity=0)
    began = time.monotonic()
    world = build_world(SMALL if asked.small else WHOLE, random.Random(asked.seed))
    print(f"{describe_world()}, in {time.monotonic() - began:.0f} s", flush=True)
    with running_web() as web:
        met = [measure(web, name, person, asked) for name, person in world.people.items()]
    print(f"load of the machine in the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0 if all(met) else 1


def describe_world() -> str:
    jobs = [f"{Job.objects.filter(state=state).count()} {state.label.lower()}" for state in JobState]
    return f"{Node.objects.count()} machines, {Gpu.objects.count()} cards, jobs: {', '.join(jobs)}"


def measure(web, who: str, person: User, asked: argparse.Namespace) -> bool:
    """Print a line for each page, and return whether all met the goal."""
    cookie = f"{settings.SESSION_COOKIE_NAME}={session(person)}"
    print(f"\n{who:32}{'p50':>8}{'p95':>8}{'cpu':>8}{'queries':>9}{'KiB':>7}  goal met", flush=True)
    met = True
    for page in list_pages(person, asked.only):
        times, processor = ask(web, page.path, page.headers | {"Cookie": cookie}, asked.rounds)
        p95 = statistics.quantiles(times, n=20, method="inclusive")[18]
        told = "behind it" if page.part else "yes" if p95 <= GOAL_P95_MS else "NO"
        met &= told != "NO"
        figures = f"{statistics.median(times):8.0f}{p95:8.0f}{processor:8.0f}{page.queries:9}{page.size / 1024:7.0f}"
        print(f"{page.name:32}{figures}  {told}", flush=True)
    return met


def ask(web, path: str, headers: dict[str, str], rounds: int) -> tuple[list[float], float]:
    """Return how long each answer took, and the processor's time of one, in milliseconds."""
    line, times, before = HTTPConnection("localhost", web.port, timeout=60), [], 0.0
    for number in range(-WARM_UP, rounds):
        if number == 0:
            before = processor_ms(web.process.pid)
        began = time.perf_counter()
        line.request("GET", path, headers=headers)
        answer = line.getresponse()
        body = answer.read()
        times.append(1000 * (time.perf_counter() - began))
        assert answer.status == 200, (path, answer.status, body[-2000:])
    used = processor_ms(web.process.pid) - before
    line.close()
    return times[WARM_UP:], used / rounds


def list_pages(person: User, only: str) -> Iterator[Page]:
    """Each that answers a GET with HTML, with the queries and the size of its second answer; names what is none."""
    client, left_out = Client(HTTP_HOST="localhost"), []
    client.force_login(person)
    for page in list_addresses(person):
        if not page.name.startswith(only):
            continue
        answer = client.get(page.path, headers=page.headers)
        if answer.status_code != 200 or not answer["Content-Type"].startswith("text/html"):
            left_out.append(f"{page.name} {answer.status_code}")
            answer.close()
            continue
        with CaptureQueriesContext(connection) as counted:
            again = client.get(page.path, headers=page.headers)
        yield replace(page, queries=len(counted), size=len(again.content))
    print(f"no page to read: {', '.join(left_out)}")


def list_addresses(person: User) -> Iterator[Page]:
    """A page for every URL pattern, and what loads behind it; of jobs in each state, their tabs, and each report."""
    parts = list_parts(person)
    for pattern in urlpatterns:
        keys = list(pattern.pattern.regex.groupindex)
        values = {key: parts.get(f"{pattern.name}.{key}") or parts[key] for key in keys}
        path = reverse(pattern.name, kwargs=values)
        yield Page(pattern.name, path)
        if part := BEHIND.get(pattern.name):
            yield Page(f"{pattern.name} {part}", path, part)
        if pattern.name == "job":
            yield from (Page(f"job {tab}", f"{path}?tab={tab}") for tab in list(TABS)[1:])
            waiting = find_job(person, {JobState.QUEUED})
            yield Page("job waiting", reverse("job", args=[waiting.public_id]))
            yield Page("job ended", reverse("job", args=[find_job(person, JOB_FINAL).public_id]))
        if pattern.name == "report":
            yield from (Page(f"report {name}", reverse("report", args=[name])) for name in list(REPORTS)[1:])


def list_parts(person: User) -> dict[str, object]:
    """{name in an address, or "route.name": a value}."""
    job, gpu = find_job(person, {JobState.RUNNING}), Gpu.objects.first()
    team = person.teams.get().name
    numbers = [
        "alert",
        "exemption",
        "silence",
        "mail",
        "token",
        "key",
        "delivery",
        "event",
        "view",
        "quota",
        "notebook_token",
        "secret",
        "service_key",
    ]
    nothing = {**dict.fromkeys(("secret", "key", "page"), "none"), **{f"{name}_id": 1 for name in numbers}}
    return nothing | {
        "job_id": job.public_id,
        "task_uuid": job.newest_tasks[0].uuid,
        "notebook_id": Notebook.objects.filter(user=person, job__isnull=False).get().public_id,
        "array_id": JobArray.objects.filter(user=person)[0].public_id,
        "service_id": Service.objects.get(user=person).public_id,
        "schedule_id": Schedule.objects.get(user=person).public_id,
        "dataset_id": Dataset.objects.get(user=person).public_id,
        "version": 1,
        "number": 1,
        "template_id": JobTemplate.objects.filter(user=person)[0].public_id,
        "webhook_id": Webhook.objects.get(user_id=person.pk).pk,
        "announcement_id": 1,
        "rule_id": 1,
        "image_id": Image.objects.values_list("pk", flat=True)[0],
        "volume_id": Volume.objects.values_list("pk", flat=True)[0],
        "login_id": Login.objects.get().pk,
        "maintenance_id": Maintenance.objects.get().pk,
        "window_id": Window.objects.get().pk,
        "uuid": gpu.uuid,
        "report": next(iter(REPORTS)),
        "name": person.username,
        "terminal.name": job.public_id,
        "files_team.name": team,
        "console_pool.name": "train",
        **{f"{route}.name": team for route in ("console_team", "console_member_add")},
        **{
            f"{route}.name": gpu.node.name
            for route in ("node", "node_cordon", "node_drain", "node_switch", "node_uncordon")
        },
    }


def find_job(person: User, states: Collection[str]) -> Job:
    """The newest of a person, of what is no notebook."""
    return Job.objects.filter(user=person, state__in=states).of_kind("").order_by("-pk")[0]


def processor_ms(web: int) -> float:
    """Of the web process and of the database's, ended ones too, since they began; of Linux."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        postmaster = int(read_stat(cursor.fetchone()[0])[1])
    processes = [read_stat(int(path.name)) for path in Path("/proc").glob("[0-9]*")]
    ticks = [int(stat[11]) + int(stat[12]) for stat in processes if stat and int(stat[1]) == postmaster]
    ended, own = read_stat(postmaster)[13:15], read_stat(web)[11:13]
    return 1000 * (sum(ticks) + sum(map(int, [*ended, *own]))) / os.sysconf("SC_CLK_TCK")


def read_stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on (proc_pid_stat(5)); none of a process that just ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    sys.exit(main())
