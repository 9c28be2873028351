"""`stop`, `retry`, `hold`, `release`, `change`, `resize` and `settle`."""

import time
from typing import Annotated

import typer

from cli.completing import complete_ended_job_ids, complete_open_job_ids
from cli.failures import OK, USAGE, WAITS, Failure
from cli.http.transport import job_path
from cli.output.cells import ENDED
from cli.session import Command, Session, fail, new_commands, split_setting

commands = new_commands()

RESIZE_WITHIN_S, POLL_S = 15.0, 0.3

OpenIds = Annotated[list[str], typer.Argument(metavar="ID", autocompletion=complete_open_job_ids)]
EndedIds = Annotated[list[str], typer.Argument(metavar="ID", autocompletion=complete_ended_job_ids)]


@commands.command("stop", cls=Command)
def stop(ctx: typer.Context, job_ids: OpenIds) -> None:
    """Stop jobs.

    A waiting job is cancelled at once; a running one is asked to end, and after a grace period made to.
    """
    _post_each(ctx.obj, job_ids, "stop")


@commands.command("retry", cls=Command)
def retry(ctx: typer.Context, job_ids: EndedIds) -> None:
    """Queue ended jobs once more."""
    _post_each(ctx.obj, job_ids, "retry", repeat=False)


@commands.command("hold", cls=Command)
def hold(ctx: typer.Context, job_ids: OpenIds) -> None:
    """Keep waiting jobs from starting.

    They keep their place in the queue.
    """
    _post_each(ctx.obj, job_ids, "hold")


@commands.command("release", cls=Command)
def release(ctx: typer.Context, job_ids: OpenIds) -> None:
    """Let held jobs start."""
    _post_each(ctx.obj, job_ids, "release")


@commands.command("resize", cls=Command)
def resize(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="ID", autocompletion=complete_open_job_ids)],
    gpu: Annotated[str, typer.Option("--gpu", metavar="SLICE", help="As in a job file: 1/2 of a card, or 12GB.")],
    task: Annotated[str, typer.Option("--task", metavar="NAME", help="Of one task, such as worker.1; else all.")] = "",
) -> None:
    """Give the slices of a running job another size.

    More where the card has room, less down to what is in use. What runs goes on meanwhile.
    """
    client = ctx.obj.client()
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
        raise fail(Failure(WAITS, f"{job['id']} is still being resized. Look again with: tessera ps {job['id']}"))


@commands.command("change", cls=Command)
def change(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="ID", autocompletion=complete_open_job_ids)],
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="As in a job file, such as gpu=1/2.")],
) -> None:
    """Change what a waiting job asks for: gpu, cpu, memory, nodes, pool, time, max_time, preemptible, priority.

    It keeps its id and its place in the queue. A lead of its team may set its priority, too.
    """
    changes = {key: _read_value(value) for key, value in map(split_setting, settings)}
    job = ctx.obj.client().patch(job_path(job_id), changes)
    ctx.obj.show(job, [job["id"]], [f"{job['id']} is changed: {', '.join(settings)}."])


@commands.command("settle", cls=Command)
def settle(
    ctx: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="ID", autocompletion=complete_open_job_ids)],
    why: Annotated[str, typer.Option("--why", metavar="REASON", help="Kept in the job's history.")],
    task: Annotated[str, typer.Option("--task", metavar="NAME", help="One task, such as worker.1; else all.")] = "",
) -> None:
    """End tasks that their machine does not know any more, as an administrator.

    What the machine still finds of them is ended first.
    """
    job = ctx.obj.client().post(job_path(job_id, ":settle"), {"why": why, **({"task": task} if task else {})})
    ctx.obj.show(job, [job["id"]], [f"{job['id']} ends as soon as its machine has found nothing of it."])


def _read_value(text: str) -> object:
    """Read a value as YAML would: numbers and true or false are no text, and nothing is as if it had not been set."""
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    return text == "true" if text in ("true", "false") else text


def _resizing_tasks(job: dict, state: str, task: str) -> list[dict]:
    named = [one for one in job["tasks"] if task in ("", f"{one['role']}.{one['rank']}")]
    return [one for one in named if one["resize"] and one["resize"]["state"] == state]


def _describe_size(task: dict) -> str:
    (card,) = task["gpus"]
    return f"{task['role']}.{task['rank']} has {card['memory_text']} of GPU {card['place']}."


def _post_each(session: Session, job_ids: list[str], verb: str, repeat: bool = True) -> None:
    """Apply a verb to all jobs; exit with the first refusal's code."""
    client = session.client()
    jobs, exit_code = [], OK
    for job_id in job_ids:
        try:
            jobs.append(client.post(job_path(job_id, f":{verb}"), repeat=repeat))
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
