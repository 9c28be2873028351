"""The `tessera` command. Each subcommand's module is loaded only when used."""

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from cli.failures import SERVER, Failure, Refused
from cli.http.transport import VERSION
from cli.session import Group, fail

# name: (module in cli.commands, help)
COMMANDS = {
    "login": ("account", "Sign in to a platform with a token."),
    "logout": ("account", "Forget the token of a platform."),
    "whoami": ("account", "Who you are there, and what your token may do."),
    "run": ("jobs.submit", "Submit a command as a job, or the job of a template."),
    "submit": ("jobs.submit", "Submit a job file."),
    "templates": ("templates", "Templates of jobs: list, show, create, update, archive, restore."),
    "rerun": ("jobs.copies", "Submit a job's file once more, as a new job."),
    "diff": ("jobs.copies", "Show what differs between the files of two jobs, field by field."),
    "ps": ("jobs.listing", "List jobs."),
    "arrays": ("jobs.arrays", "List arrays of jobs."),
    "view": ("jobs.views", "Saved views of the list of jobs: ls, save, rm."),
    "show": ("jobs.status", "One job, array, notebook or machine whole."),
    "why": ("jobs.status", "Why a job waits, and its place in the queue."),
    "eff": ("jobs.status", "How well a job uses what it holds, or used what it held."),
    "numbers": ("jobs.numbers", "The numbers that a job reports, such as its loss."),
    "logs": ("jobs.logs", "What a job wrote."),
    "events": ("events", "What happens to jobs and notebooks."),
    "alerts": ("events", "Alerts: ls, ack, silence."),
    "stop": ("jobs.actions", "Stop jobs, or arrays of jobs: arr-9."),
    "retry": ("jobs.actions", "Queue ended jobs once more, or all of an array that did not succeed."),
    "hold": ("jobs.actions", "Keep waiting jobs from starting."),
    "release": ("jobs.actions", "Let held jobs start."),
    "change": (
        "jobs.actions",
        "Change what a waiting job asks for, such as gpu, memory, nodes, place, pool, time or priority.",
    ),
    "label": ("jobs.actions", "Set and remove labels of a job, which may have ended."),
    "resize": ("jobs.actions", "Give the slices of a running job another size."),
    "settle": ("jobs.actions", "End tasks that their machine does not know any more, as an administrator."),
    "idle": ("jobs.actions", "What is held and idle: ls, people, snooze, exempt, release."),
    "files": ("files", "Your files there, and your teams'."),
    "env": ("data.environments", "Environments of Python packages: ls, show, build, save, diff, rm."),
    "data": ("data.datasets", "Datasets and models in versions: ls, add, show, diff, stage, share, rm, restore."),
    "volumes": ("data.volumes", "Storage of the site that jobs may name: ls, add, set, rm."),
    "nb": ("notebooks", "Notebooks: start, open, stop, ls, rename; addresses for editors."),
    "serve": (
        "services",
        "Services: serve -f FILE, ls, show, logs, usage, wake, sleep, stop, scale, promote, rollback, rm; key ….",
    ),
    "call": ("services", "Send a request to a service, as you, and print its answer as it comes."),
    "schedules": ("schedules", "Jobs at the times of a cron line: ls, create, show, set, suspend, resume, run, rm."),
    "open": ("notebooks", "Open a notebook in jupyter or vscode."),
    "share": ("access.shares", "Let colleagues enter a running job or notebook: add, ls, rm."),
    "ssh": ("access.ssh", "Open a shell in a notebook or running job, or run a command there."),
    "exec": ("access.ssh", "Run one program in a notebook or running job."),
    "cp": ("access.ssh", "Copy files or folders into or out of a notebook or running job: tessera cp explore:out.pt ."),
    "ssh-config": ("access.ssh", "Let plain ssh, scp, rsync, sftp and VS Code know your notebooks and jobs by name."),
    "secrets": ("secrets", "Secrets for jobs: ls, set, rm."),
    "ssh-key": ("access.ssh_keys", "SSH keys: add, ls, rm."),
    "free": ("cluster_status", "What is free for you now."),
    "top": ("cluster_status", "How busy each GPU is now, and whose work keeps it so."),
    "quota": ("cluster_status", "What your teams may hold, and what high priority costs them."),
    "queue": ("cluster_status", "Everybody's waiting and running jobs."),
    "usage": ("cluster_status", "Reports of your teams: GPU-hours, waits, idle cards, failures, energy or forecasts."),
    "day": ("cluster_status", "How many cards were held and active over a day."),
    "images": ("images", "Images by name: ls, add, set, rm."),
    "registries": ("images", "Logins at image registries: ls, add, set, rm."),
    "history": ("history", "What happened on the platform, as one file for simulations: export."),
    "nodes": ("administration", "Machines: ls, show, cordon, drain, uncordon, switch."),
    "agent": ("administration", "Machines' agents: add, ls, show, approve, revoke."),
    "backup": (
        "administration",
        "For the platform's admin, on its machine: back up database, files, logs and secrets.",
    ),
    "restore": ("administration", "For the platform's admin: restore a backup onto an empty installation."),
    "backup-key": ("administration", "For the platform's admin: make the key that opens the secrets of backups."),
    "doctor": ("doctor", "Check address, token, versions and tools."),
    "profile": ("account", "Your name, mail address, language and time zone: show, set."),
    "version": ("account", "The versions of this command and of the platform."),
}

UNKNOWN_THERE = frozenset({400, 404, 405})
"""HTTP statuses that suggest another version of the platform."""


class Commands(Group):
    """Lists names and help without loading the commands, for fast help and completion."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name][1]) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in COMMANDS and args[0] not in self.commands:
            module = import_module(f"cli.commands.{COMMANDS[args[0]][0]}")
            self.commands.update(typer.main.get_group(module.commands).commands)
        elif args[0] not in COMMANDS:  # to suggest the nearest name
            self.commands.update({name: self.get_command(ctx, name) for name in COMMANDS})
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Refused as refused:
            other = ctx.obj.other_version() if refused.status in UNKNOWN_THERE else ""
            raise fail(Failure(refused.exit_code, *refused.lines, *filter(None, [other]))) from None
        except Failure as failure:
            raise fail(failure) from None
        except (KeyError, TypeError):
            if other := ctx.obj.other_version():
                raise fail(Failure(SERVER, "The platform's answer was not understood.", other)) from None
            raise


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Share a GPU cluster: submit jobs, see why they wait and where they run, read what they write.",
    epilog="Exit codes: 0 ok, 1 job failed, 2 usage, 3 not found, 4 denied, 5 waits, 6 server.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"tessera {VERSION}")
        raise typer.Exit


@app.callback()
def begin(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Of this command, and no more.")
    ] = False,
) -> None:
    pass


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    app(prog_name="tessera")
