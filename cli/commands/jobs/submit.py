"""`run` and `submit`."""

import os
import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer

from cli import job_file_editor
from cli.code_upload import is_code_here, read_job_file, upload_code, upload_code_of
from cli.completing import complete_template_names
from cli.failures import USAGE, Failure
from cli.following import build_detached_failure, follow, report_outcome, wait_for_end, wait_for_start
from cli.http.transport import Client, is_array_id
from cli.naming import find_template
from cli.output.plan import EXITS, format_plan
from cli.output.safe_text import plain
from cli.parse_duration import read_duration
from cli.session import Command, Output, Session, new_commands, split_setting

PLACES = ("home:", "team:", "volume:", "dataset:", "model:")

commands = new_commands()


class Until(StrEnum):
    start = "start"
    end = "end"


WaitOption = Annotated[
    Until | None, typer.Option("--wait", help="Return when it has started, or ended: then exit 1 if it failed.")
]
TimeoutOption = Annotated[
    str | None, typer.Option("--timeout", metavar="TIME", help="With --wait: exit 5 after this time, such as 10m.")
]
FollowOption = Annotated[
    bool,
    typer.Option("--follow", "-f", help="Write its log as it comes; exit 1 if it failed. Ctrl-C leaves it running."),
]
PlanOption = Annotated[
    bool,
    typer.Option(
        "--plan", help="Submit nothing: say if it would start now, wait (exit 5) or never run (exit 2), and what helps."
    ),
]


@commands.command("run", cls=Command, context_settings={"allow_interspersed_args": False})
def run(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="What to run. One word is a line for the shell.")
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            "--template",
            "-t",
            metavar="NAME[@VERSION]",
            help="Instead of a command.",
            autocompletion=complete_template_names,
        ),
    ] = None,
    values: Annotated[
        list[str] | None, typer.Option("--param", "-p", metavar="K=V", help="A parameter of the template; repeat it.")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", "-g", help="Such as 1, 1/4, 10GB, H100/4, H100:8; none without.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="A label; else the beginning of the command.")
    ] = None,
    code: Annotated[
        Path | None, typer.Option("--code", metavar="DIR", help="Send this directory and run in it.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="K=V", help="May be repeated; K alone takes your own value."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", "-d", metavar="SOURCE:PATH", help="Such as corpus@v7:in, or team:corpus:in. Repeat it."),
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Else it waits in all of your team's where it could run.")] = None,
    team: Annotated[str | None, typer.Option(help="Needed if you are in several.")] = None,
    cpu: Annotated[str | None, typer.Option(help="Cores for each task.")] = None,
    memory: Annotated[str | None, typer.Option(help="For each task, such as 16GB.")] = None,
    nodes: Annotated[
        str | None, typer.Option(help="Tasks that start together or not at all; 4..8: up to 8 where there is room.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Your honest estimate, such as 2h30m.")] = None,
    max_time: Annotated[str | None, typer.Option(help="It is stopped after this time.")] = None,
    priority: Annotated[str | None, typer.Option(help="low, normal, high or urgent.")] = None,
    plan: PlanOption = False,
    follow: FollowOption = False,
    wait: WaitOption = None,
    timeout: TimeoutOption = None,
) -> None:
    """Submit a command as a job, or the job of a template.

    tessera run -g 1/4 -- python train.py

    tessera run --template finetune@4 -p lr=3e-4
    """
    session: Session = ctx.obj
    within_s = read_duration(timeout)
    if (template is None) == (not command):
        raise Failure(USAGE, "Name a command to run, or a template: one of the two.")
    if values and template is None:
        raise Failure(USAGE, "--param: only a template has parameters. Add --template NAME")
    client = session.client()
    options = {
        "name": name, "gpu": gpu, "pool": pool, "team": team, "cpu": cpu, "memory": memory,
        "nodes": int(nodes) if nodes and nodes.isdecimal() else nodes,
        "time": time, "max_time": max_time, "priority": priority,
    }  # fmt: skip
    spec: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    if env:
        spec["env"] = _read_environment(env)
    if data:
        spec["data"] = dict(map(read_data_option, data))
    if command:
        spec["run"] = command[0] if len(command) == 1 else shlex.join(command)
    asked = None if template is None else TemplateRun(client, template, values or [], spec)
    if plan and asked is not None:
        _show_plan(session, asked.plan())
    elif plan:
        _show_plan(session, client.post("/jobs:plan", spec))
    if code is not None:
        spec["code"] = upload_code(session, client, code)
    job = asked.run() if asked is not None else client.post("/jobs", spec, key=str(uuid4()))
    follow_new_job(session, client, job, follow_it=follow, until=wait, within_s=within_s)


def read_data_option(text: str) -> tuple[str, str]:
    """Return (path, source) of "corpus@v7:in", where a source without a place names a dataset."""
    source, _, path = text.rpartition(":")
    if not source or not path:
        raise Failure(USAGE, f"--data {plain(text)}: write what to have and where, such as corpus@v7:in")
    return path, source if source.startswith(PLACES) else f"dataset:{source}"


class TemplateRun:
    """What is asked of a template. changes: keys of its job file that are said otherwise."""

    def __init__(self, client: Client, name: str, values: list[str], changes: dict[str, Any]):
        self.client = client
        template_id, version = find_template(client, name)
        self.path = f"/templates/{template_id}"
        self.body: dict[str, Any] = {"values": dict(map(split_setting, values)), "changes": changes}
        self.body |= {"version": version} if version else {}

    def plan(self) -> dict:
        return self.client.send_body("/jobs:plan", self.render().encode(), "application/yaml")

    def render(self) -> str:
        """Return the job file of these values."""
        return self.client.post(f"{self.path}:render", self.body)["file"]

    def run(self) -> dict:
        return self.client.post(f"{self.path}:run", self.body, key=str(uuid4()))


@commands.command("submit", cls=Command)
def submit(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A job file; - reads standard input.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Such as gpu=1/2 or env.LR=3e-4. May be repeated."),
    ] = None,
    plan: PlanOption = False,
    follow: FollowOption = False,
    wait: WaitOption = None,
    timeout: TimeoutOption = None,
) -> None:
    """Submit a job file.

    With `code: .` in it, the directory of the file is packed and sent, but for what .gitignore leaves out.
    """
    session: Session = ctx.obj
    within_s = read_duration(timeout)
    client = session.client()
    text = job_file_editor.change(read_job_file(file), [split_setting(pair) for pair in settings or []])
    if plan:
        text = job_file_editor.change(text, [("code", ".")]) if is_code_here(text) else text
        _show_plan(session, client.send_body("/jobs:plan", text.encode(), "application/yaml"))
    text = upload_code_of(session, client, text, file)
    job = client.send_body("/jobs", text.encode(), "application/yaml", key=str(uuid4()))
    follow_new_job(session, client, job, follow_it=follow, until=wait, within_s=within_s)


def _show_plan(session: Session, plan: dict) -> None:
    session.show(plan, [plan["outcome"]], format_plan(plan)[:1] if session.quiet else format_plan(plan))
    raise typer.Exit(EXITS[plan["outcome"]])


def follow_new_job(
    session: Session, client: Client, job: dict, *, follow_it: bool, until: Until | None, within_s: int | None
) -> None:
    """Follow the new job as asked, and end the command. An array can be waited for, and has no log to follow."""
    is_array = is_array_id(job["id"])
    _print_new_job(session, job, follow_it and not is_array)
    if follow_it and is_array:
        first = f"{job['id']}.0"
        raise Failure(USAGE, f"Each element has a log of its own. Follow the first: tessera logs -f {first}")
    try:
        if follow_it:
            job = follow(session, client, job)
        elif until is Until.start:
            job = wait_for_start(session, client, job, within_s)
        elif until is Until.end:
            job = wait_for_end(session, client, job, within_s)
    except KeyboardInterrupt:
        raise build_detached_failure(job["id"]) from None
    if follow_it or until is Until.end or (until is Until.start and job["state"] in {"failed", "cancelled"}):
        raise typer.Exit(report_outcome(session, job))


def _print_new_job(session: Session, job: dict, follow_it: bool) -> None:
    """Print the job; with -f to stderr, since stdout is the log's."""
    sentence = f"{job['id']} is {job['state']}. {job['links']['html']}"
    if follow_it and session.output is Output.table:
        session.print_note(sentence)
        return
    session.show(job, [job["id"]], [job["id"]] if session.quiet else [sentence])


def _read_environment(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals and name not in os.environ:
            raise Failure(USAGE, f"env.{plain(name)}: it has no value here. Write --env {plain(name)}=VALUE")
        found[name] = value if equals else os.environ[name]
    return found
