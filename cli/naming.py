"""What a command takes by id or name: jobs, notebooks, machines, schedules, services, saved views and templates."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from urllib.parse import quote

from cli.failures import NOT_FOUND, USAGE, Failure, Refused
from cli.http.transport import Client, full_id, is_array_id
from cli.output.cells import ENDED, OPEN

MOST = 500
"""How many of one's own jobs are looked through."""
WAITING, RUNNING = ("queued",), ("running",)

_JOB_ID = re.compile(r"(job-)?[0-9]+", re.ASCII | re.IGNORECASE)
_ELEMENT_ID = re.compile(r"(?P<array>arr-[1-9][0-9]*)\.(?P<index>[0-9]{1,5})", re.ASCII | re.IGNORECASE)
_NOTEBOOK_ID = re.compile(r"nb-[0-9]+", re.ASCII | re.IGNORECASE)
_SERVICE_ID = re.compile(r"svc-[1-9][0-9]*")
_SCHEDULE_ID = re.compile(r"sch-[1-9][0-9]*", re.ASCII)
_GATEWAY_ID = re.compile(r"(job|nb)-[0-9]+(\..*)?", re.ASCII | re.IGNORECASE)
_TASK = r"\.(?P<role>[A-Za-z0-9_-]{1,32})\.(?P<rank>[0-9]{1,6})"
_TASK_BY_ID = re.compile(rf"(?P<job>(job-)?[0-9]+){_TASK}", re.ASCII | re.IGNORECASE)
_TASK_BY_NAME = re.compile(rf"(?P<job>.+){_TASK}", re.ASCII | re.DOTALL)
_TEMPLATE_ID = re.compile(r"tpl-[0-9]+", re.ASCII | re.IGNORECASE)
_AT_VERSION = re.compile(r"(?P<name>.+)@(?P<version>[1-9][0-9]{0,8})", re.ASCII)
_WORDS = {OPEN: "open ", ENDED: "ended ", WAITING: "waiting ", RUNNING: "running "}


@dataclass(frozen=True)
class JobTask:
    """A job, or one of its tasks. role, rank: of the task; "" and 0 for the job itself."""

    job_id: str
    role: str = ""
    rank: int = 0

    def __str__(self) -> str:
        return f"{self.job_id}.{self.role}.{self.rank}" if self.role else self.job_id


def find_job_id(client: Client, text: str, states: tuple[str, ...] = ()) -> str:
    """Return the id that is meant. states: which jobs the command can mean by a name. Raises Failure.

    An id is not looked up: the platform tells whether there is such a job. arr-9.17 is element 17 of an array.
    """
    if is_job_id(text):
        return full_id(text)
    if element := _ELEMENT_ID.fullmatch(text):
        return _find_element_id(client, element["array"].lower(), int(element["index"]))
    if is_array_id(text):
        raise Failure(USAGE, f"{text} is an array of jobs. Name one of them, such as {text.strip()}.0")
    named = find_own_jobs(client, text, states)
    if not named:
        raise Failure(NOT_FOUND, _describe_missing(client, text, states))
    if len(named) > 1:
        raise Failure(USAGE, *describe_ambiguous(text, (f"{job['id']}, {job['state']}" for job in named)))
    return named[0]["id"]


def find_job_task(client: Client, text: str) -> JobTask:
    """Return the job or task that is meant: train, job-412, train.main.1, job-412.main.1. Raises Failure.

    By id nothing is looked up. A name that is a job's and a task's, too, means none of them.
    """
    if named := _TASK_BY_ID.fullmatch(text):
        return JobTask(full_id(named["job"]), named["role"], int(named["rank"]))
    if not (named := _TASK_BY_NAME.fullmatch(text)):
        return JobTask(find_job_id(client, text))
    if _ELEMENT_ID.fullmatch(named["job"]):
        return JobTask(find_job_id(client, named["job"]), named["role"], int(named["rank"]))
    meant = find_own_tasks(client, text)
    if not meant:
        near = [f"{named['job']}.{name}" for job in find_own_jobs(client, named["job"]) for name in _task_names(job)]
        raise Failure(NOT_FOUND, f"You have no job and no task of a job named {text}.{suggest(text, near)}")
    if len(meant) > 1:
        raise Failure(USAGE, *_describe_several(text, meant))
    return meant[0][1]


def find_anything(client: Client, text: str) -> tuple[str, str]:
    """Return what is meant, as (kind, id or name): of a "job", "array", "notebook" or "node". Raises Failure."""
    if is_job_id(text):
        return "job", full_id(text)
    if is_array_id(text):
        return "array", full_id(text)
    if _ELEMENT_ID.fullmatch(text):
        return "job", find_job_id(client, text)
    if _NOTEBOOK_ID.fullmatch(text):
        return "notebook", text.lower()
    notebooks = client.get_all("/notebooks")["results"]
    nodes = client.get("/nodes")["results"]
    jobs = find_own_jobs(client, text)
    meant = [("notebook", one["id"]) for one in notebooks if one["name"] == text]
    # The jobs of a notebook have its name, too.
    meant += [("job", job["id"]) for job in jobs if not (meant and job["kind"] == "interactive")]
    meant += [("node", node["name"]) for node in nodes if node["name"] == text]
    if len(meant) > 1:
        say = {"job": "{}", "notebook": "{}, a notebook", "node": "the machine: tessera nodes show {}"}
        raise Failure(USAGE, *describe_ambiguous(text, (say[kind].format(one) for kind, one in meant)))
    if meant:
        return meant[0]
    names = [one["name"] for one in (*notebooks, *nodes, *client.get("/jobs", limit=MOST, owner="me")["results"])]
    raise Failure(NOT_FOUND, f"There is no job or notebook of yours and no machine named {text}.{suggest(text, names)}")


def find_entered_job_id(client: Client, text: str) -> str:
    """Return the id of the open job that is meant, or of the job that a notebook runs as. Raises Failure."""
    kind, found = find_anything(client, text)
    if kind == "node":
        raise Failure(USAGE, f"{text} is a machine. Name a job or notebook of yours.")
    if kind == "array":
        return find_job_id(client, text)
    if kind == "job":
        return found
    one = client.get(f"/notebooks/{quote(found, safe='')}")
    if not one["job"]:
        raise Failure(USAGE, f"{one['name']} is {one['state']}. Start it first: tessera nb start {one['name']}")
    return one["job"]


def find_gateway_name(client: Client, text: str) -> str:
    """Return a name that the SSH gateway knows, which are those of notebooks and ids. Raises Failure.

    A running notebook goes before a job of its name, as in ssh_config. The gateway itself tells of one that is neither.
    """
    if _GATEWAY_ID.fullmatch(text):
        return text
    try:
        meant = find_own_tasks(client, text, RUNNING)
    except Refused as refused:
        if refused.status != 403:
            raise
        return text  # a token that may not read jobs still enters notebooks
    if not meant or find_own_jobs(client, text, RUNNING, kind="interactive"):
        return text
    if len(meant) > 1:
        raise Failure(USAGE, *_describe_several(text, meant))
    return str(meant[0][1])


def is_job_id(text: str) -> bool:
    return _JOB_ID.fullmatch(text.strip()) is not None


def find_own_jobs(client: Client, name: str, states: tuple[str, ...] = (), kind: str | None = None) -> list[dict]:
    """Return one's own jobs of exactly this name, the newest first; those that ended only where none is open.

    kind: "interactive" for the starts of notebooks, which are else left out.
    """
    named = [job for job in _load_own_jobs(client, name, states, kind) if job["name"] == name]
    return [job for job in named if job["state"] in OPEN] or named


def find_own_tasks(client: Client, text: str, states: tuple[str, ...] = ()) -> list[tuple[dict, JobTask]]:
    """Return one's own jobs of exactly this name, and as train.main.1 the tasks main.1 of jobs named train.

    Those of jobs that ended only where none is open.
    """
    task = _TASK_BY_NAME.fullmatch(text)
    stem, name = (task["job"], f"{task['role']}.{int(task['rank'])}") if task else (text, "")
    jobs = _load_own_jobs(client, stem, states)
    meant = [(job, JobTask(job["id"])) for job in jobs if job["name"] == text]
    if task:
        of_stem = [job for job in jobs if job["name"] == stem and name in _task_names(job)]
        meant += [(job, JobTask(job["id"], task["role"], int(task["rank"]))) for job in of_stem]
    return [one for one in meant if one[0]["state"] in OPEN] or meant


def load_node(client: Client, name: str) -> dict[str, Any]:
    """Return a machine with its `checks`."""
    path = f"/nodes/{quote(name, safe='')}"
    return client.get(path) | {"checks": client.get(f"{path}/checks")["results"]}


def find_view(client: Client, name: str) -> dict[str, Any]:
    """Return one's own saved view of this name. Raises Failure."""
    views = {one["name"]: one for one in client.get("/me/views")["results"]}
    if name not in views:
        near = suggest(name, views) or " Yours: tessera view ls"
        raise Failure(NOT_FOUND, f"You have no view named {name}.{near}")
    return views[name]


def find_schedule(client: Client, name: str) -> dict[str, Any]:
    """Return the schedule of this id, or one's own of this name. Raises Failure."""
    if _SCHEDULE_ID.fullmatch(name):
        return client.get(f"/schedules/{name}")
    mine = {one["name"]: one for one in client.get_all("/schedules", owner="me")["results"]}
    if name not in mine:
        near = suggest(name, mine) or " Yours: tessera schedules ls"
        raise Failure(NOT_FOUND, f"You have no schedule named {name}.{near}")
    return mine[name]


def find_service(client: Client, name: str) -> dict[str, Any]:
    """Return the service of this id, or of one's teams by name, nlp/chat where several have it. Raises Failure."""
    if _SERVICE_ID.fullmatch(name):
        return client.get(f"/services/{name}")
    team, _, short = name.rpartition("/")
    named = client.get_all("/services", q=short, team=team or None)["results"]
    found = [one for one in named if one["name"] == short]
    if len(found) > 1:
        known = ", ".join(f"{one['team']}/{short}" for one in found)
        raise Failure(USAGE, f"Several teams have a service named {short}. Write one of: {known}")
    if not found:
        near = suggest(short, [one["name"] for one in client.get_all("/services")["results"]])
        raise Failure(NOT_FOUND, f"Your teams have no service named {name}.{near or ' They have: tessera serve ls'}")
    return found[0]


def find_template(client: Client, text: str) -> tuple[str, int | None]:
    """Return the id and the version of "finetune", "finetune@4", "nlp/finetune" or "tpl-3@2". Raises Failure.

    version: None for the newest.
    """
    name, version = text, None
    if found := _AT_VERSION.fullmatch(text):
        name, version = found["name"], int(found["version"])
    if _TEMPLATE_ID.fullmatch(name):
        return name.lower(), version
    team, _, short = name.rpartition("/")
    named = client.get("/templates", name=short, team=team or None)["results"]
    if not named:
        known = [one["name"] for one in client.get("/templates", fields="name")["results"]]
        raise Failure(
            NOT_FOUND,
            f"There is no template named {name}.{suggest(short, known) or ' List them: tessera templates list'}",
        )
    if len(named) > 1:
        meant = (f"{one['id']}, {one['team'] or 'everybody'}" for one in named)
        raise Failure(USAGE, *describe_ambiguous(name, meant))
    return named[0]["id"], version


def describe_ambiguous(name: str, meant: Iterable[str]) -> list[str]:
    return [f"{name} may be one of several. Say which by its id:", *(f"  {one}" for one in meant)]


def suggest(text: str, names: Iterable[str]) -> str:
    """Return a sentence with names like this one, or ""."""
    near = get_close_matches(text, sorted(set(names)), n=3)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _find_element_id(client: Client, array: str, index: int) -> str:
    found = client.get("/jobs", array=array, index=index, fields="id")["results"]
    if not found:
        raise Failure(NOT_FOUND, f"There is no element {index} of {array} yet. See what there is: tessera show {array}")
    return found[0]["id"]


def _describe_missing(client: Client, text: str, states: tuple[str, ...]) -> str:
    page = client.get("/jobs", limit=MOST, owner="me", state=",".join(states) or None)
    near = suggest(text, (job["name"] for job in page["results"] if job["name"]))
    return f"You have no {_WORDS.get(states, '')}job named {text}.{near or ' Yours: tessera ps'}"


def _load_own_jobs(client: Client, text: str, states: tuple[str, ...], kind: str | None = None) -> list[dict]:
    asked = {"owner": "me", "q": text, "state": ",".join(states) or None, "kind": kind}
    return client.get_all("/jobs", most=MOST, **asked)["results"]


def _task_names(job: dict) -> list[str]:
    return [f"{task['role']}.{task['rank']}" for task in job["tasks"]]


def _describe_several(text: str, meant: Iterable[tuple[dict, JobTask]]) -> list[str]:
    return describe_ambiguous(text, (f"{task}, {job['state']}" for job, task in meant))
