"""For admins: `nodes`, `agent` (their agents), and `backup`, `restore` and `backup-key` on the platform's machine."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from cli.completing import complete_agent_names, complete_node_names
from cli.failures import USAGE, Failure
from cli.naming import load_node
from cli.output.cells import NONE
from cli.output.safe_text import plain
from cli.output.table import Column
from cli.output.whole import describe_node
from cli.session import Command, Session, new_commands

commands = new_commands()
nodes, agents = new_commands(), new_commands()
commands.add_typer(nodes, name="nodes", help="Machines: ls, show, cordon, drain, uncordon, switch.")
commands.add_typer(agents, name="agent", help="Machines' agents: add, ls, show, approve, revoke.")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "config.embedded.copies"
PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""The program that does it reads the options, and has their help."""

Machine = Annotated[str, typer.Argument(metavar="NODE", autocompletion=complete_node_names)]
MachineOrCard = Annotated[
    str,
    typer.Argument(metavar="NODE[:GPU]", help="n1, or n1:0 for one card.", autocompletion=complete_node_names),
]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="Kept in the machine's history, for everyone to read.")]
NODE_COLUMNS = (
    Column("NODE", least=8),
    Column("STATE"),
    Column("POOL"),
    Column("GPUS", right=True),
    Column("JOBS", right=True),
    Column("CPU", right=True),
    Column("MEMORY", right=True),
    Column("MAINTENANCE", least=8),
)
UNKNOWN = "?"

Node = Annotated[str, typer.Argument(metavar="NODE", autocompletion=complete_agent_names)]
COLUMNS = (
    Column("NODE", least=8),
    Column("STATE"),
    Column("LAST REPORT"),
    Column("GPUS", least=8),
    Column("BROKEN", right=True),
    Column("WAITING", right=True),
)


@nodes.command("ls", cls=Command)
def list_nodes(ctx: typer.Context) -> None:
    """List the machines, with how many jobs run on each, and what they use: busy cores, memory."""
    session: Session = ctx.obj
    found = session.client().get("/nodes")
    rows = [_node_row(node) for node in found["results"]]
    names = [node["name"] for node in found["results"]]
    session.show_table(found, names, NODE_COLUMNS, rows, "No machines yet. Let one in: tessera agent add NODE")


@nodes.command("show", cls=Command)
def show_node(ctx: typer.Context, node: Machine) -> None:
    """Show a machine: its state, its cards, and what its checks say."""
    session: Session = ctx.obj
    found = load_node(session.client(), node)
    session.show(found, [found["name"]], describe_node(found))


@nodes.command("cordon", cls=Command)
def cordon(ctx: typer.Context, node: MachineOrCard, why: Why = "") -> None:
    """Start nothing new on a machine or on one card; what runs goes on. For a card a reason is needed."""
    _change_service(ctx.obj, node, ":cordon", {"why": why})


@nodes.command("drain", cls=Command)
def drain(ctx: typer.Context, node: Machine, why: Why = "") -> None:
    """Cordon a machine, and stop and requeue its preemptible jobs. Other jobs run to their end."""
    _change_service(ctx.obj, node, ":drain", {"why": why})


@nodes.command("uncordon", cls=Command)
def uncordon(ctx: typer.Context, node: MachineOrCard) -> None:
    """Take a cordoned or draining machine, or one cordoned card, back into service."""
    _change_service(ctx.obj, node, ":uncordon", {})


@nodes.command("switch", cls=Command)
def set_switch(
    ctx: typer.Context,
    node: Machine,
    switch: Annotated[str, typer.Argument(metavar="SWITCH", help='Its name; "" to go by what the cluster says.')],
) -> None:
    """Say to which network switch a machine is connected, for jobs with `place`."""
    session: Session = ctx.obj
    found = session.client().post(f"/nodes/{quote(node, safe='')}:switch", {"switch": switch})
    where = f"switch {found['switch']}" if found["switch"] else "no known switch"
    session.show(found, [found["name"]], [f"{found['name']} is connected to {where}"])


def _change_service(session: Session, node: str, verb: str, body: dict[str, str]) -> None:
    if ":" in node:
        return _change_service_of_card(session, node, verb, body)
    found = session.client().post(f"/nodes/{quote(node, safe='')}{verb}", body)
    jobs = sorted({task["job"] for task in found["tasks"] if task["job"]})
    runs = {0: "nothing runs there", 1: f"{len(found['tasks'])} task runs there"}
    words = runs.get(len(found["tasks"]), f"{len(found['tasks'])} tasks run there")
    named = f": {', '.join(jobs)}" if jobs else ""
    session.show(found, [found["name"]], [f"{found['name']} is {found['state'].replace('_', ' ')}; {words}{named}."])


def _change_service_of_card(session: Session, place: str, verb: str, body: dict[str, str]) -> None:
    if verb == ":drain":
        raise Failure(USAGE, f"One card is cordoned, not drained: tessera nodes cordon {place} --why TEXT")
    name, _, index = place.rpartition(":")
    client = session.client()
    card = next((one for one in load_node(client, name)["gpus"] if str(one["index"]) == index), None)
    if card is None:
        raise Failure(USAGE, f"{name} has no card {index}. See: tessera nodes show {name}")
    found = client.post(f"/gpus/{quote(card['uuid'], safe='')}{verb}", body)
    state = "is in service" if found["healthy"] else f"is out of service: {found['fault']}"
    session.show(found, [found["uuid"]], [f"{place} {state}"])


def _node_row(node: dict[str, Any]) -> list[str]:
    planned = node["maintenance"][0]["begins_at"][:16].replace("T", " ") if node["maintenance"] else NONE
    jobs = len({task["job"] or task["team"] for task in node["tasks"]})
    cards = str(len(node["gpus"]))
    return [node["name"], node["state"], node["pool"], cards, str(jobs or NONE), *_show_use(node["use"]), planned]


def _show_use(use: dict[str, Any] | None) -> list[str]:
    """Return how many of its cores a machine keeps busy, and its memory in use."""
    busy, memory = (use[name]["text"] if use else "" for name in ("cpu", "memory"))
    return [f"{busy} of {use['cores']}" if use and busy else UNKNOWN, memory or UNKNOWN]


@agents.command("add", cls=Command)
def add(ctx: typer.Context, node: Annotated[str, typer.Argument(metavar="NODE")]) -> None:
    """Let a machine's agent in: prints what to run there, once and within 15 minutes."""
    session: Session = ctx.obj
    made = session.client().post("/agents:invite", {"node": node}, repeat=False)
    session.show(made, [made["token"]], [made["command"]])
    session.print_note(
        f"Run it on {made['node']}. Then look at what it reports, and approve it: tessera agent approve {node}"
    )


@agents.command("ls", cls=Command)
def list_agents(ctx: typer.Context) -> None:
    """List the agents."""
    session: Session = ctx.obj
    found = session.client().get("/agents")
    rows = [_row(agent) for agent in found["results"]]
    names = [agent["node"] for agent in found["results"]]
    session.show_table(found, names, COLUMNS, rows, "No agents yet. Let one in: tessera agent add NODE")


@agents.command("show", cls=Command)
def show(ctx: typer.Context, node: Node) -> None:
    """What an agent reports: its cards, what is wrong with them, and what waits for approval."""
    session: Session = ctx.obj
    agent = session.client().get(_path(node))
    session.show(agent, [agent["node"]], [*_describe_cards(agent), *agent["faults"], *_describe_held_back(agent)])


@agents.command("approve", cls=Command)
def approve(
    ctx: typer.Context,
    node: Node,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Approve what an agent reports beyond what was approved: new cards, or more of one."""
    session: Session = ctx.obj
    client = session.client()
    agent = client.get(_path(node))
    if not agent["seen"]:
        session.print_note(f"Nothing of {agent['node']} waits for approval.")
        session.show(agent, [agent["node"]], _describe_held_back(agent))
        return
    for line in _describe_held_back(agent):
        session.print_note(line)
    if not yes and not typer.confirm(f"Approve this of {plain(agent['node'])}?", err=True):
        raise Failure(USAGE, "Nothing was approved.")
    approved = client.post(_path(node, ":approve"), {"seen": agent["seen"]})
    session.show(approved, [approved["node"]], [f"{approved['node']} is approved."])


@agents.command("revoke", cls=Command)
def revoke(ctx: typer.Context, node: Node) -> None:
    """Close the platform to an agent's key. What runs on its machine goes on."""
    session: Session = ctx.obj
    session.client().delete(_path(node))
    session.print_note(f"The agent of {node} speaks no more. Let it in again: tessera agent add {node}")


def _path(node: str, verb: str = "") -> str:
    return f"/agents/{quote(node, safe='')}{verb}"


def _row(agent: dict[str, Any]) -> list[str]:
    models = [gpu["model"] for gpu in agent["gpus"]]
    gpus = ", ".join(f"{models.count(model)}x{model}" for model in dict.fromkeys(models))
    last = (agent["reported_at"] or NONE)[:19].replace("T", " ")
    counts = (len(agent[name]) for name in ("faults", "held_back"))
    return [agent["node"], agent["state"], last, gpus or NONE, *(str(count or NONE) for count in counts)]


def _describe_cards(agent: dict[str, Any]) -> list[str]:
    return [_describe_card(gpu, gpu["sample"] or {}) for gpu in agent["gpus"]]


def _describe_card(gpu: dict[str, Any], now: dict[str, Any]) -> str:
    said = [f"GPU {gpu['place']}", gpu["model"], gpu["memory"]["text"], "approved" if gpu["approved"] else "waits"]
    said += ["MIG"] if gpu["mig"] else []
    for name, unit in (("busy_percent", "%"), ("temperature_c", "°C"), ("power_w", "W")):
        said += [f"{now[name]}{unit}"] if now.get(name) is not None else []
    return "  ".join(said)


def _describe_held_back(agent: dict[str, Any]) -> list[str]:
    return [held["text"] for held in agent["held_back"]]


@commands.command("backup", context_settings=PASSED_ON)
def backup(ctx: typer.Context) -> None:
    """For the platform's admin, on its machine: back up database, files, logs and secrets."""
    _run("backup", ctx.args)


@commands.command("restore", context_settings=PASSED_ON)
def restore(ctx: typer.Context) -> None:
    """For the platform's admin: restore a backup onto an empty installation."""
    _run("restore", ctx.args)


@commands.command("backup-key", context_settings=PASSED_ON)
def backup_key(ctx: typer.Context) -> None:
    """For the platform's admin: make the key that opens the secrets of backups."""
    _run("backup-key", ctx.args)


def _run(command: str, arguments: list[str]) -> None:
    if not (ROOT / "platform/config/embedded/copies.py").exists():
        name = command.replace("-", "_")
        raise Failure(
            USAGE,
            f"`tessera {command}` runs in the checkout that the platform runs from, and this is none.",
            f"In containers: docker compose exec worker python manage.py {name}, or",
            f"kubectl -n tessera-system exec deployment/tessera-worker -c worker -- python manage.py {name}",
        )
    path = os.pathsep.join([str(ROOT), str(ROOT / "platform")])
    done = subprocess.run([sys.executable, "-m", PROGRAM, command, *arguments], env={**os.environ, "PYTHONPATH": path})
    raise typer.Exit(done.returncode)
