"""`stop`, `retry`, `hold`, `release`, `change`, `label`, `resize`, `settle` and `idle`."""

import time
from typing import Annotated, Any

import typer

from cli.completing import complete_ended_job_ids, complete_job_ids, complete_open_job_ids
from cli.failures import OK, USAGE, WAITS, Failure
from cli.http.transport import is_array_id, job_path
from cli.naming import RUNNING, WAITING, find_job_id
from cli.output.cells import ENDED, NONE, OPEN
from cli.output.table import Column
from cli.session import Command, Session, fail, new_commands, split_setting

commands = new_commands()

RunningId = Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_open_job_ids)]
RESIZE_WITHIN_S, POLL_S = 15.0, 0.3

OpenIds = Annotated[list[str], typer.Argument(metavar="JOB", autocompletion=complete_open_job_ids)]
OF_ARRAYS = ("stop", "retry")
EndedIds = Annotated[list[str], typer.Argument(metavar="JOB", autocompletion=complete_ended_job_ids)]


@commands.command("stop", cls=Command)
def stop(ctx: typer.Context, job_ids: OpenIds) -> None:
    """Stop jobs, or arrays of jobs: arr-9.

    A waiting job is cancelled at once; a running one is asked to end, and after a grace period made to. Of an array all
    that is open is stopped, and no more is made.
    """
    _post_each(ctx.obj, job_ids, "stop", OPEN)


@commands.command("retry", cls=Command)
def retry(
    ctx: typer.Context,
    job_ids: EndedIds,
    failed: Annotated[
        bool, typer.Option("--failed", help="Of arrays only what failed, not what was cancelled or never made.")
    ] = False,
) -> None:
    """Queue ended jobs once more, or all of an array that did not succeed."""
    if failed and (jobs := [job_id for job_id in job_ids if not is_array_id(job_id)]):
        raise Failure(USAGE, f"--failed is for arrays, and {jobs[0]} is none. Leave it out.")
    _post_each(ctx.obj, job_ids, "retry", ENDED, repeat=False, of_array={"only_failed": failed})


@commands.command("hold", cls=Command)
def hold(ctx: typer.Context, job_ids: OpenIds) -> None:
    """Keep waiting jobs from starting.

    They keep their place in the queue.
    """
    _post_each(ctx.obj, job_ids, "hold", WAITING)


@commands.command("release", cls=Command)
def release(ctx: typer.Context, job_ids: OpenIds) -> None:
    """Let held jobs start."""
    _post_each(ctx.obj, job_ids, "release", WAITING)


@commands.command("resize", cls=Command)
def resize(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_open_job_ids)],
    gpu: Annotated[str, typer.Option("--gpu", metavar="SLICE", help="As in a job file: 1/2 of a card, or 12GB.")],
    task: Annotated[str, typer.Option("--task", metavar="NAME", help="Of one task, such as worker.1; else all.")] = "",
) -> None:
    """Give the slices of a running job another size.

    More where the card has room, less down to what is in use. What runs goes on meanwhile.
    """
    client = ctx.obj.client()
    job_id = find_job_id(client, job_id, RUNNING)
    job = client.post(job_path(job_id, ":resize"), {"gpu": gpu, **({"task": task} if task else {})})
    until = time.monotonic() + RESIZE_WITHIN_S
    while _resizing_tasks(job, "asked", task) and time.monotonic() < until:
        time.sleep(POLL_S)
        job = client.get(job_path(job_id))
    refused, unfinished = _resizing_tasks(job, "refused", task), _resizing_tasks(job, "asked", task)
    ctx.obj.show(job, [job["id"]], [_describe_size(one) for one in job["tasks"] if one["resize"]])
    if refused:
        lines = [f"{job['id']} {one['role']}.{one['rank']}: {one['resize']['detail']}" for one in refused]
        raise fail(Failure(USAGE, *lines))
    if unfinished:
        raise fail(Failure(WAITS, f"{job['id']} is still being resized. Look again with: tessera show {job['id']}"))


@commands.command("change", cls=Command)
def change(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_open_job_ids)],
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="As in a job file, such as gpu=1/2.")],
) -> None:
    """Change what a waiting job asks for, such as gpu, memory, nodes, place, pool, time or priority.

    It keeps its id and its place in the queue. A lead of its team may set its priority, too.
    """
    changes = {key: _read_value(value) for key, value in map(split_setting, settings)}
    client = ctx.obj.client()
    job = client.patch(job_path(find_job_id(client, job_id, WAITING)), changes)
    ctx.obj.show(job, [job["id"]], [f"{job['id']} is changed: {', '.join(settings)}."])


@commands.command("label", cls=Command)
def label(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_job_ids)],
    changes: Annotated[list[str], typer.Argument(metavar="NAME=VALUE|NAME-...", help="A dash at the end removes one.")],
) -> None:
    """Set and remove labels of a job, which may have ended."""
    labels = dict(_read_label(text) for text in changes)
    client = ctx.obj.client()
    job = client.patch(job_path(find_job_id(client, job_id)), {"labels": labels})
    now = ", ".join(f"{name}={value}" if value else name for name, value in job["spec"].get("labels", {}).items())
    ctx.obj.show(job, [job["id"]], [f"{job['id']} has labels {now}." if now else f"{job['id']} has no label."])


@commands.command("settle", cls=Command)
def settle(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_open_job_ids)],
    why: Annotated[str, typer.Option("--why", metavar="REASON", help="Kept in the job's history.")],
    task: Annotated[str, typer.Option("--task", metavar="NAME", help="One task, such as worker.1; else all.")] = "",
) -> None:
    """End tasks that their machine does not know any more, as an administrator.

    What the machine still finds of them is ended first.
    """
    client = ctx.obj.client()
    body = {"why": why, **({"task": task} if task else {})}
    job = client.post(job_path(find_job_id(client, job_id, OPEN), ":settle"), body)
    ctx.obj.show(job, [job["id"]], [f"{job['id']} ends as soon as its machine has found nothing of it."])


def _read_value(text: str) -> object:
    """Read a value as YAML would: numbers and true or false are no text, and nothing is as if it had not been set.

    A map is written like {same: switch}, or without braces.
    """
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    if ": " in text:
        return dict(part.split(": ", 1) for part in text.strip("{}").split(", ") if ": " in part)
    return text == "true" if text in ("true", "false") else text


def _read_label(text: str) -> tuple[str, str | None]:
    """Read NAME=VALUE, NAME alone, or NAME- of a label to remove."""
    name, equals, value = text.partition("=")
    if not equals and name.endswith("-"):
        return name[:-1], None
    return name, value


def _resizing_tasks(job: dict, state: str, task: str) -> list[dict]:
    named = [one for one in job["tasks"] if task in ("", f"{one['role']}.{one['rank']}")]
    return [one for one in named if one["resize"] and one["resize"]["state"] == state]


def _describe_size(task: dict) -> str:
    (card,) = task["gpus"]
    return f"{task['role']}.{task['rank']} has {card['memory_text']} of GPU {card['place']}."


def _post_each(
    session: Session,
    job_ids: list[str],
    verb: str,
    states: tuple[str, ...],
    repeat: bool = True,
    of_array: dict[str, Any] | None = None,
) -> None:
    """Apply a verb to all jobs; exit with the first refusal's code. of_array: what is sent with it to an array."""
    client = session.client()
    jobs, exit_code = [], OK
    for job_id in job_ids:
        try:
            if verb in OF_ARRAYS and is_array_id(job_id):
                jobs.append(client.post(job_path(job_id, f":{verb}"), of_array, repeat=repeat))
            else:
                jobs.append(client.post(job_path(find_job_id(client, job_id, states), f":{verb}"), repeat=repeat))
        except Failure as failure:
            refused = fail(_name_job(job_id, failure))
            exit_code = exit_code or refused.exit_code
    answer = jobs[0] if len(job_ids) == 1 and jobs else {"results": jobs, "next_cursor": None}
    if jobs:
        session.show(answer, [job["id"] for job in jobs], [_describe_result(job, verb) for job in jobs])
    raise typer.Exit(exit_code)


def _name_job(job_id: str, failure: Failure) -> Failure:
    first, *others = failure.lines
    return Failure(failure.exit_code, first if job_id in first else f"{job_id}: {first}", *others)


def _describe_result(job: dict, verb: str) -> str:
    if verb == "hold":
        return f"{job['id']} is held. To let it start: tessera release {job['id']}"
    if verb == "stop" and job["state"] not in ENDED:
        return f"{job['id']} is being stopped."
    return f"{job['id']} is {job['state']}."


idle = new_commands()
commands.add_typer(idle, name="idle", help="What is held and idle: ls, people, snooze, exempt, release.")
IDLE = (
    Column("ID"),
    Column("NAME", least=6),
    Column("OWNER", least=5),
    Column("GPUS", right=True),
    Column("IDLE FOR", right=True),
    Column("SEEN", least=12),
    Column("NEXT", least=12),
)
PEOPLE = (
    Column("USER", least=6),
    Column("AWAY FOR", right=True),
    Column("LAST SEEN"),
    Column("REMINDED"),
    Column("HOLDS", least=12),
)


@idle.command("ls", cls=Command)
def list_idle(ctx: typer.Context) -> None:
    """List what is held and idle now, with what was seen and what happens next."""
    session: Session = ctx.obj
    found = session.client().get("/idle")
    rows = [_idle_row(row) for row in found["results"]]
    names = [row["job"] for row in found["results"] if row["job"]]
    session.show_table(found, names, IDLE, rows, "Nothing held is idle.")


@idle.command("people", cls=Command)
def list_idle_people(ctx: typer.Context) -> None:
    """List who has been away for long and still holds something. For admins and leads."""
    session: Session = ctx.obj
    found = session.client().get("/idle-people")
    rows = [_person_row(row) for row in found["results"]]
    names = [row["user"] for row in found["results"]]
    session.show_table(found, names, PEOPLE, rows, "Nobody who holds something has been away for long.")


@idle.command("snooze", cls=Command)
def snooze(ctx: typer.Context, job: RunningId) -> None:
    """Keep an idle job for another hour, twice a day at most."""
    _do_idle(ctx.obj, job, "snooze", "is kept for another hour")


@idle.command("release", cls=Command)
def release_idle(ctx: typer.Context, job: RunningId) -> None:
    """Release what an idle job holds, at once: a notebook goes on without its GPU, a job is stopped."""
    _do_idle(ctx.obj, job, "release", "is released")


@idle.command("exempt", cls=Command)
def exempt(
    ctx: typer.Context,
    job: RunningId,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The leads of its team see it.")],
    hours: Annotated[int, typer.Option("--hours", metavar="N", help="24 at most; 720 for admins.")] = 8,
) -> None:
    """Keep the rules off a job or notebook for some hours, as a lead."""
    session: Session = ctx.obj
    client = session.client()
    job = find_job_id(client, job, OPEN)
    made = client.post("/exemptions", {"job": job, "hours": hours, "reason": why}, repeat=False)
    session.show(
        made, [str(made["id"])], [f"No rule holds for {made['notebook'] or made['job']} until {made['until']}."]
    )


def _do_idle(session: Session, named: str, verb: str, done: str) -> None:
    client = session.client()
    job = find_job_id(client, named, OPEN)
    client.post(f"/idle/{job}:{verb}", {})
    session.show({"job": job}, [job], [f"{job} {done}."])


def _idle_row(row: dict[str, Any]) -> list[str]:
    for_min = f"{row['idle_s'] // 60} min" if row["finding"] == "idle" else "?"
    name, owner = row["name"] or NONE, row["owner"] or row["team"] or NONE
    return [row["job"] or NONE, name, owner, f"{row['gpu_milli'] / 1000:g}", for_min, row["seen"], row["next"]]


def _person_row(row: dict[str, Any]) -> list[str]:
    seen, reminded = (row[name][:10] if row[name] else "never" for name in ("seen_at", "reminded_at"))
    user = f"{row['user']} (suspended)" if row["suspended"] else row["user"]
    return [user, f"{row['days']} d", seen, reminded, row["held"]]
