"""`serve` and `call`: services, which answer requests with as many replicas as these need."""

import sys
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer

from cli import following
from cli.code_upload import read_job_file, upload_code_of
from cli.commands.jobs.submit import TemplateRun
from cli.completing import complete_service_names, complete_template_names
from cli.failures import NOT_FOUND, USAGE, Failure
from cli.http.transport import Client
from cli.job_file_editor import read_key
from cli.naming import find_service
from cli.output.cells import NONE
from cli.output.table import Column
from cli.session import Command, Group, Session, new_commands

CALL_WAITS_S = 3700.0
"""A request is held while the service wakes, for an hour at most."""

commands = new_commands()
serve = typer.Typer(cls=Group, rich_markup_mode=None, invoke_without_command=True)
commands.add_typer(
    serve,
    name="serve",
    help="Services: serve -f FILE, ls, show, logs, usage, wake, sleep, stop, scale, promote, rollback, rm; key ….",
)
keys = new_commands()
serve.add_typer(keys, name="key", help="Keys by which programs call a service: add, limit, ls, rm.")

COLUMNS = (
    Column("ID"),
    Column("NAME", least=8),
    Column("STATE"),
    Column("REVISION"),
    Column("READY"),
    Column("IN FLIGHT"),
    Column("ADDRESS", least=20),
)
KEY_COLUMNS = (
    Column("ID"),
    Column("NAME", least=8),
    Column("BEGINS"),
    Column("A MINUTE"),
    Column("IN FLIGHT"),
    Column("LAST USED"),
    Column("EXPIRES"),
)
USAGE_COLUMNS = (Column("DAY"), Column("KEY", least=8), Column("REQUESTS"), Column("FAILED"))
CALLERS = {"key": NONE, "token": "(API tokens)", "browser": "(browsers)"}
"""Of requests without a key that has a name."""
KEY_FIELDS = ("name", "prefix", "per_minute", "in_flight", "last_used_at", "expires_at")
NO_LIMIT = 0

PerMinute = Annotated[
    int | None, typer.Option("--per-minute", min=NO_LIMIT, help="The most requests a minute; 0 for no limit.")
]
InFlight = Annotated[
    int | None, typer.Option("--in-flight", min=NO_LIMIT, help="The most requests at once; 0 for no limit.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Or its id, svc-7.", autocompletion=complete_service_names)]


@serve.callback()
def serve_file(
    ctx: typer.Context,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="FILE", help="Its job file; - reads standard input.")
    ] = None,
    template: Annotated[
        str | None,
        typer.Option("--template", "-t", metavar="NAME", help="Of a service.", autocompletion=complete_template_names),
    ] = None,
    values: Annotated[
        list[str] | None, typer.Option("--param", "-p", metavar="K=V", help="A parameter of the template; repeat it.")
    ] = None,
) -> None:
    """Create a service by its file or a template, or roll out a new file of it.

    tessera serve -f chat.yaml

    tessera serve --template file-type -p environment=magika
    """
    if ctx.invoked_subcommand is not None:
        return
    if (file is None) == (template is None):
        words = "Name the service's file, or a template: tessera serve -f FILE. Yours: tessera serve ls"
        raise Failure(USAGE, words)
    session: Session = ctx.obj
    client = session.client()
    if template is not None:
        text = TemplateRun(client, template, values or [], {}).render()
    else:
        text = upload_code_of(session, client, read_job_file(str(file)), str(file))
    there = _find_mine(client, read_key(text, "name") or "")
    if there is None:
        made = client.post("/services", {"job_file": text}, key=str(uuid4()))
    else:
        made = client.patch(_path(there), {"job_file": text})
    _show(session, made)


@serve.command("ls", cls=Command)
def list_services(ctx: typer.Context) -> None:
    """List the services of your teams."""
    session: Session = ctx.obj
    found = session.client().get_all("/services")
    rows = [_row(one) for one in found["results"]]
    empty = "No services yet. Make one: tessera serve -f FILE"
    session.show_table(found, [one["name"] for one in found["results"]], COLUMNS, rows, empty)


@serve.command("show", cls=Command)
def show_service(ctx: typer.Context, name: Name) -> None:
    """Show a service with its replicas and revisions, what it answered, and its canary."""
    session: Session = ctx.obj
    client = session.client()
    one = find_service(client, name)
    revisions = client.get(_path(one, "/revisions"), limit=10)["results"]
    metrics = client.get(_path(one, "/metrics"))
    lines = [_describe(one), f"team      {one['team']}, owner {one['owner']}"]
    lines += [f"scale     {one['scale']} replicas"]
    answered = _describe_figures(metrics["all"]) if metrics["all"] else "not known now"
    lines += [f"answered  {answered}, in the last {metrics['window_s'] // 60} minutes"]
    if starts := metrics["cold_starts"]["last"]:
        lines += [f"starts    {_describe_start(metrics['cold_starts']['median'])}, median of {len(starts)}"]
        lines += [f"          {_describe_start(starts[0])}, the last one, {starts[0]['job']}"]
    if one["canary"]:
        lines += [f"canary    {words}" for words in _describe_canary(one["canary"])]
    lines += [f"replica   {_describe_replica(replica)}" for replica in one["replicas"]]
    lines += [f"revision  {_describe_revision(one, revision)}" for revision in revisions]
    session.show({**one, "revisions": revisions, "metrics": metrics}, [one["name"]], lines)


@serve.command("logs", cls=Command)
def show_logs(ctx: typer.Context, name: Name) -> None:
    """What the newest replica of a service wrote."""
    session: Session = ctx.obj
    client = session.client()
    one = find_service(client, name)
    found = client.get("/jobs", label=f"service:{one['id']}", limit=1)["results"]
    if not found:
        raise Failure(NOT_FOUND, f"No replica of {one['name']} was ever started.")
    session.print_note(f"{found[0]['id']} of {one['name']}:")
    following.print_log(session, client, found[0]["id"], rank=0)


@serve.command("wake", cls=Command)
def wake_service(ctx: typer.Context, name: Name) -> None:
    """Start a replica as if a request came, also of a service that is stopped or failing."""
    _act(ctx.obj, name, "wake")


@serve.command("sleep", cls=Command)
def sleep_service(ctx: typer.Context, name: Name) -> None:
    """End its replicas once they have answered. The next request wakes it."""
    _act(ctx.obj, name, "sleep")


@serve.command("stop", cls=Command)
def stop_service(ctx: typer.Context, name: Name) -> None:
    """End its replicas once they have answered, and refuse requests until somebody wakes it."""
    _act(ctx.obj, name, "stop")


@serve.command("promote", cls=Command)
def promote_canary(ctx: typer.Context, name: Name) -> None:
    """Let its canary take over before the end of its time. The other way is rollback."""
    _act(ctx.obj, name, "promote")


@serve.command("scale", cls=Command)
def scale_service(
    ctx: typer.Context,
    name: Name,
    replicas: Annotated[
        str | None, typer.Argument(metavar="REPLICAS", help="Such as 2 or 0..4; else as its file says.")
    ] = None,
) -> None:
    """Set how many replicas it may have, until a new file of it is rolled out."""
    session: Session = ctx.obj
    client = session.client()
    made = client.post(_path(find_service(client, name), ":scale"), {"replicas": replicas})
    session.print_note(f"{made['name']} may have {made['scale']} replicas.")
    _show(session, made)


@serve.command("rollback", cls=Command)
def roll_back(
    ctx: typer.Context,
    name: Name,
    revision: Annotated[
        int | None, typer.Option("--to", min=1, help="Which revision; else the one before the newest.")
    ] = None,
) -> None:
    """Roll out an earlier revision once more."""
    session: Session = ctx.obj
    client = session.client()
    _show(session, client.post(_path(find_service(client, name), ":rollback"), {"revision": revision}))


@serve.command("usage", cls=Command)
def show_usage(
    ctx: typer.Context,
    name: Name,
    days: Annotated[int, typer.Option("--days", min=1, max=400, help="How many until today.")] = 30,
) -> None:
    """How many requests came, by day and key."""
    session: Session = ctx.obj
    client = session.client()
    found = client.get(_path(find_service(client, name), "/usage"), days=days)
    rows = [
        [one["day"], one["name"] or CALLERS[one["by"]], str(one["requests"]), str(one["failed"])]
        for one in found["results"]
    ]
    session.show_table(found, [row[0] for row in rows], USAGE_COLUMNS, rows, f"No requests in {days} days.")


@serve.command("rm", cls=Command)
def remove_service(ctx: typer.Context, name: Name) -> None:
    """Delete a service with its keys, and stop its replicas at once."""
    session: Session = ctx.obj
    client = session.client()
    client.delete(_path(find_service(client, name)))
    session.print_note(f"The service {name} is deleted.")


@keys.command("add", cls=Command)
def add_key(
    ctx: typer.Context,
    name: Name,
    key: Annotated[str, typer.Argument(metavar="KEY", help="What uses it.")],
    days: Annotated[int | None, typer.Option("--days", min=1, help="Until it expires; else never by itself.")] = None,
    per_minute: PerMinute = None,
    in_flight: InFlight = None,
) -> None:
    """Make a key, and print it: it is not shown again."""
    session: Session = ctx.obj
    client = session.client()
    asked = {"name": key, "days": days, "per_minute": per_minute or None, "in_flight": in_flight or None}
    made = client.post(_path(find_service(client, name), "/keys"), asked, repeat=False)
    session.show(made, [made["secret"]], [made["secret"]])


@keys.command("limit", cls=Command)
def limit_key(
    ctx: typer.Context,
    name: Name,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its name or id.")],
    per_minute: PerMinute = None,
    in_flight: InFlight = None,
) -> None:
    """Change how many requests a key may have. It counts within seconds."""
    asked = {"per_minute": per_minute, "in_flight": in_flight}
    limits = {field: value or None for field, value in asked.items() if value is not None}
    if not limits:
        raise Failure(USAGE, "Say which limit: --per-minute N or --in-flight N; 0 takes one away.")
    session: Session = ctx.obj
    client = session.client()
    changed = client.patch(_find_key_path(client, name, key), limits)
    session.show(changed, [changed["name"]], [_describe_limits(changed)])


@keys.command("ls", cls=Command)
def list_keys(ctx: typer.Context, name: Name) -> None:
    """List the keys of a service."""
    session: Session = ctx.obj
    client = session.client()
    found = client.get(_path(find_service(client, name), "/keys"))
    rows = [[str(one["id"])] + [str(one[column] or NONE) for column in KEY_FIELDS] for one in found["results"]]
    session.show_table(found, [one["name"] for one in found["results"]], KEY_COLUMNS, rows, "No keys yet.")


@keys.command("rm", cls=Command)
def remove_key(
    ctx: typer.Context, name: Name, key: Annotated[str, typer.Argument(metavar="KEY", help="Its name or id.")]
) -> None:
    """End a key. It opens nothing any more within seconds."""
    session: Session = ctx.obj
    client = session.client()
    client.delete(_find_key_path(client, name, key))
    session.print_note(f"The key {key} is ended.")


@commands.command("call", cls=Command)
def call_service(
    ctx: typer.Context,
    name: Name,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Such as /v1/models.")] = "/",
    data: Annotated[
        str | None, typer.Option("--data", "-d", metavar="TEXT|@FILE", help="Post this; @- reads standard input.")
    ] = None,
    content_type: Annotated[str, typer.Option("--type", help="The Content-Type of the data.")] = "application/json",
) -> None:
    """Send a request to a service, as you, and print its answer as it comes.

    Such as: tessera call chat /v1/chat/completions -d @body.json
    """
    session: Session = ctx.obj
    client = session.client()
    one = find_service(client, name)
    body = b"" if data is None else _read_data(data)
    headers = {"Content-Type": content_type} if data is not None else {}
    method = "GET" if data is None else "POST"
    client.timeout_s = CALL_WAITS_S
    where = f"/-/{one['team']}/{one['name']}/{path.removeprefix('/')}"
    with client.stream_answer(method, where, body, headers) as (_, pieces):
        for piece in pieces:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()


def _read_data(data: str) -> bytes:
    if not data.startswith("@"):
        return data.encode()
    if data == "@-":
        return sys.stdin.buffer.read()
    try:
        return Path(data[1:]).read_bytes()
    except OSError as error:
        raise Failure(USAGE, f"{data[1:]} cannot be read ({error.strerror}).") from None


def _find_mine(client: Client, name: str) -> dict | None:
    """Return the service of this name that one may change, if there is one."""
    found = client.get_all("/services", owner="me", q=name or None)["results"]
    return next((one for one in found if one["name"] == name), None)


def _find_key_path(client: Client, name: str, key: str) -> str:
    """Return where one key of a service is, by its name or id."""
    one = find_service(client, name)
    found = [row for row in client.get(_path(one, "/keys"))["results"] if key in (row["name"], str(row["id"]))]
    if len(found) != 1:
        words = f"{one['name']} has {'several keys' if found else 'no key'} named {key}."
        raise Failure(NOT_FOUND, f"{words} They are: tessera serve key ls {name}")
    return _path(one, f"/keys/{found[0]['id']}")


def _act(session: Session, name: str, verb: str) -> None:
    client: Client = session.client()
    _show(session, client.post(_path(find_service(client, name), f":{verb}")))


def _show(session: Session, one: dict) -> None:
    session.show(one, [one["name"]], [_describe(one)])


def _describe(one: dict) -> str:
    rollout = f", revision {one['rollout']} comes up" if one["rollout"] else ""
    words = f"{one['name']} ({one['id']}) is {one['state']}{rollout}: {one['links']['call']}"
    return f"{words}\n{one['wait']}" if one["wait"] else words


def _describe_limits(key: dict) -> str:
    limits = ((key["per_minute"], "a minute"), (key["in_flight"], "in flight"))
    said = [f"{most} {words}" for most, words in limits if most]
    return f"{key['name']}: at most {' and '.join(said)}" if said else f"{key['name']}: no limits"


def _describe_replica(one: dict[str, Any]) -> str:
    state = "draining" if one["draining"] else "ready" if one["ready"] else one["state"].lower()
    where = f" on {one['node']}" if one["node"] else ""
    busy = f", {one['in_flight']} in flight" if one["in_flight"] is not None else ""
    return f"{one['job']}  r{one['revision']}  {state}{where}  gpu {one['gpu']}{busy}"


def _describe_figures(one: dict) -> str:
    if not one["requests"]:
        return "no requests"
    times = f", p50 {one['p50_ms']:g} ms, p95 {one['p95_ms']:g} ms" if one["p50_ms"] is not None else ""
    return f"{one['requests']} requests, {one['per_s']:g}/s, {one['error_percent']:g}% errors{times}"


def _describe_start(one: dict) -> str:
    parts = [(part, one[f"{part}_s"]) for part in ("queue", "data", "image", "program")]
    return f"{sum(s for _, s in parts):.1f} s: {', '.join(f'{part} {s:.1f}' for part, s in parts)}"


def _describe_canary(one: dict) -> list[str]:
    rule = one["back_if"]
    p95 = f" or p95 {rule['p95_factor']:g}x" if rule["p95_factor"] else ""
    until = f"until {one['until'][:16]}" if one["until"] else "comes up"
    lines = [
        f"r{one['revision']}  {one['share']}% of the requests, {until}; back at {rule['error_percent']:g}% errors{p95}"
    ]
    return lines + ([f"so far: {_describe_figures(one['so_far'])}"] if one["so_far"] else [])


def _describe_revision(service: dict, one: dict) -> str:
    current = "answers" if one["number"] == service["revision"] else "failed" if one["failed"] else ""
    words = f"r{one['number']}  {one['created_by']}  {one['created_at'][:16]}  {current}".rstrip()
    return f"{words}: {one['why']}" if one["failed"] and one["why"] else words


def _row(one: dict) -> list[str]:
    ready = sum(replica["ready"] and not replica["draining"] for replica in one["replicas"])
    busy = NONE if one["in_flight"] is None else str(one["in_flight"])
    return [one["id"], one["name"], one["state"], f"r{one['revision']}", str(ready), busy, one["links"]["call"]]


def _path(one: dict, rest: str = "") -> str:
    return f"/services/{one['id']}{rest}"
