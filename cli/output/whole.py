"""One job, array, notebook or machine whole, as lines."""

from datetime import datetime
from typing import Any

from cli.output.cells import (
    ENDED,
    NONE,
    count_ended,
    describe_end,
    format_clock,
    format_elements,
    format_gpus,
    format_wait_or_run,
    list_other_pools,
    now,
    parse_time,
)
from cli.output.plan import format_reasons
from cli.output.safe_text import plain

TITLE = 11
BEST_TRIALS = 5


def describe_job(job: dict[str, Any], wait: dict[str, Any] | None, length: dict[str, Any] | None = None) -> list[str]:
    """wait: what the platform says of its wait, of a queued job. length: what it predicts, None for nothing."""
    at = now()
    lines = [f"{job['id']} {job['name']}".rstrip() + f" {_describe_state(job, at)}."]
    lines += _wait_rows(job, wait) if wait else []
    lines.append(_row("Will take", length["text"] if length else ""))
    lines += [_row("Runs on", place) for place in map(_describe_task, job["tasks"]) if place]
    lines += [_row("Asks", _describe_ask(job)), _row("Belongs to", f"{job['owner']}, team {job['team']}")]
    labels = job["spec"].get("labels") or {}
    lines.append(_row("Labels", ", ".join(f"{name}={value}" if value else name for name, value in labels.items())))
    for title, field in (("Submitted", "submitted_at"), ("Started", "started_at"), ("Ended", "ended_at")):
        lines.append(_clock_row(title, job[field], at))
    if job["state"] == "queued":
        lines.append(_clock_row("Not before", job["spec"].get("start_at"), at))
        lines.append(_clock_row("Gives up", job.get("give_up_at"), at))
        lines.append(_row("After", ", ".join(job.get("waits_for") or [])))
        lines.append(_row("Still open", ", ".join(job.get("waits_for_elements") or [])))
    lines += [_row("Code", plain(code)) for code in _list_repositories(job["spec"])]
    lines.append(_row("Secrets", ", ".join(_list_secrets(job["spec"]))))
    if made_of := job.get("template"):
        lines.append(_row("Template", f"{made_of['name']}@{made_of['version']}"))
    lines.append(_row("Copy of", job.get("parent") or ""))
    if job["state"] not in ENDED:
        lines.append(_clock_row("Ends by", job["expected_end_at"], at))
    lines += [_row("Attempt", str(job["attempt"]) if job["attempt"] > 1 else ""), _row("Hint", job["hint"])]
    lines += [_row("Address", address) for address in _list_addresses(job)]
    return [*filter(None, lines), _row("Page", job["links"]["html"])]


def describe_array(array: dict[str, Any]) -> list[str]:
    at = now()
    state = array["state"] if array["state"] in ("failed", "succeeded") else f"is {array['state']}"
    lines = [
        f"{array['id']} {array['name']} {state}: {count_ended(array)} of {array['total']} have ended.",
        _row("Elements", format_elements(array)),
        _row("At once", str(array["at_once"])),
        _row("Made", f"{array['made']} of {array['total']}"),
        _row("Belongs to", f"{array['owner']}, team {array['team']}"),
        *(_clock_row(title, array[name], at) for title, name in (("Submitted", "submitted_at"), ("Ended", "ended_at"))),
        _clock_row("Last ends", array.get("expected_end_at"), at),
        *_describe_sweep(array["id"], array.get("sweep")),
        _row("Refused", array["detail"]),
        _row("Page", array["links"]["html"]),
    ]
    return [line for line in lines if line]


def describe_notebook(one: dict[str, Any], page: str) -> list[str]:
    at = now()
    spec = one["spec"]
    lines = [
        f"{one['id']} {one['name']} is {one['state']}.",
        _row("Job", one["job"] or ""),
        _row("Asks", f"GPU {spec['gpu']}"),
        _row("Belongs to", f"{one['owner']}, team {one['team']}"),
        _row("Files", f"~/{one['folder']}"),
        *(_clock_row(title, one[field], at) for title, field in (("Made", "created_at"), ("Opened", "opened_at"))),
        _clock_row("Stops", one["stops_at"], at),
        _row("Page", page),
    ]
    return [line for line in lines if line]


def describe_node(node: dict[str, Any]) -> list[str]:
    checks = node["checks"]
    lines = [f"{node['name']} is {node['state'].replace('_', ' ')}, in pool {node['pool']}."]
    lines += [f"It is connected to switch {node['switch']}."] if node["switch"] else []
    lines += [f"GPU {gpu['index']}  {gpu['model']}  {gpu['fault'] or 'sound'}" for gpu in node["gpus"]]
    lines += [_describe_check(check, node["gpus"]) for check in checks if check["state"] in ("fail", "warn")]
    passed = sum(check["state"] == "ok" for check in checks)
    return [*lines, f"{passed} of {len(checks)} checks pass." if checks else "Nothing was heard of its checks lately."]


def _describe_sweep(array: str, sweep: dict[str, Any] | None) -> list[str]:
    """Tell what a sweep looks for, and its best trials."""
    if not sweep:
        return []
    best = [
        f"{trial['score']:.6g} by {array}.{trial['index']}, {trial['job']}: "
        + " ".join(f"{name}={value}" for name, value in trial["values"].items())
        for trial in sweep["trials"][:BEST_TRIALS]
    ]
    looks_for = f"{'smallest' if sweep['mode'] == 'min' else 'largest'} {sweep['metric']}"
    rows = [_row("Best" if at == 0 else "", plain(trial)) for at, trial in enumerate(best or ["none yet"])]
    return [_row("Looks for", plain(looks_for)), *rows]


def _describe_state(job: dict[str, Any], at: datetime) -> str:
    if job["state"] == "queued":
        return f"is queued, and has waited {format_wait_or_run(job, at)}"
    if job["state"] in ENDED:
        why = describe_end(job)
        ran = f" after {format_wait_or_run(job, at)}" if job["started_at"] else ""
        verb = "was cancelled" if job["state"] == "cancelled" else job["state"]
        return f"{verb}{ran}" + (f": {why.rstrip('.')}" if why != NONE else "")
    ran = f", for {format_wait_or_run(job, at)} now" if job["started_at"] else ""
    stopping = ", and is being stopped" if job["stop_requested_at"] else ""
    return f"is {job['state']}{ran}{stopping}"


def _wait_rows(job: dict[str, Any], wait: dict[str, Any]) -> list[str]:
    place = f"number {wait['position']} of {wait['of']} in pool {job['pool']}" if wait["position"] else ""
    why = [f"held by {job['held_by']}"] if job["held"] else format_reasons(wait["reasons"])
    start = wait.get("start")
    return [
        _row("Place", place),
        *(_row("" if number else "Waits for", line) for number, line in enumerate(why)),
        _row("Will start", start["text"] if start else ""),
    ]


def _describe_task(task: dict[str, Any]) -> str:
    if not task["node"]:
        return ""
    cards = ", ".join(card["place"] for card in task["gpus"])
    where = f"{task['node']}, GPU {cards}" if cards else task["node"]
    return f"{where} ({task['role']}.{task['rank']}, {task['state']})"


def _describe_ask(job: dict[str, Any]) -> str:
    gpus = format_gpus(job)
    parts = [
        "no GPU" if gpus == NONE else f"GPU {gpus}",
        f"CPU {job['cpu']['text']}",
        f"memory {job['memory']['text']}",
        f"at most {job['max_time']['text']}" if job["max_time"]["value"] else "",
        f"{job['priority']} priority",
        f"pool {', '.join([job['pool'], *list_other_pools(job)])}",
    ]
    return ", ".join(filter(None, parts))


def _list_repositories(spec: dict[str, Any]) -> list[str]:
    """Return what it fetches from Git, each with its branch or tag and the commit."""
    said = [
        ("", spec.get("code")),
        *((f"{name}: ", role.get("code")) for name, role in (spec.get("roles") or {}).items()),
    ]
    return [f"{name}{code.removeprefix('git+')}" for name, code in said if (code or "").startswith("git+")]


def _list_secrets(spec: dict[str, Any]) -> list[str]:
    """Return the names of secrets; those of a role with it."""
    roles = (spec.get("roles") or {}).items()
    own = [f"{name} ({role})" for role, said in roles for name in said.get("secrets") or []]
    return [*(spec.get("secrets") or []), *own]


def _list_addresses(job: dict[str, Any]) -> list[str]:
    """List where its declared ports are reached, of tasks that have not ended."""
    live = [task for task in job["tasks"] if task["address"] and not task["ended_at"]]
    return [f"{name} {task['address']}:{port}" for task in live for name, port in task["ports"].items()]


def _describe_check(check: dict[str, Any], gpus: list[dict[str, Any]]) -> str:
    place = next((f" of GPU {gpu['index']}" for gpu in gpus if gpu["uuid"] == check["card"]), "")
    since = check["since"][:16].replace("T", " ")
    return plain(f"{check['state'].upper():4}  {check['name']}{place} since {since}: {check['words']}")


def _clock_row(title: str, text: str | None, at: datetime) -> str:
    moment = parse_time(text)
    return _row(title, format_clock(moment, at)) if moment else ""


def _row(title: str, text: str) -> str:
    return f"  {title:<{TITLE}} {text}" if text else ""
