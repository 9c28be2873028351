"""`ssh`, `exec`, `cp` and `ssh-config`, by the OpenSSH clients."""

import re
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from cli.completing import enterable_names
from cli.failures import USAGE, Failure
from cli.http.credentials import config_file, write_private_file
from cli.naming import find_gateway_name
from cli.openssh import Gateway, exec_program, find_gateway, ssh_arguments, ssh_options, store_host_key
from cli.session import Command, Session, new_commands

commands = new_commands()

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A notebook, a job or one of its tasks: explore, train, job-412, train.main.1",
        autocompletion=enterable_names,
    ),
]
Words = Annotated[list[str] | None, typer.Argument(metavar="COMMAND")]
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,80}")
REMOTE = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]*):(?P<path>.*)", re.DOTALL)
BEGIN, END = "# >>> tessera", "# <<< tessera"
JUMP = "tessera-gateway"


@commands.command("ssh", cls=Command)
def ssh(ctx: typer.Context, name: Name, command: Words = None) -> None:
    """Open a shell in a notebook or running job, or run a command there.

    What follows -- is handed to ssh as it is: tessera ssh explore -- nvidia-smi
    """
    gateway = _find_gateway(ctx.obj)
    exec_program("ssh", *ssh_arguments(gateway), "-l", _find_name(ctx.obj, name), gateway.alias, *(command or []))


@commands.command("exec", cls=Command)
def execute(ctx: typer.Context, name: Name, command: Words = None) -> None:
    """Run one program in a notebook or running job.

    Each word stays one word; the exit code is the program's: tessera exec job-412 -- ls "my folder"
    """
    if not command:
        raise Failure(USAGE, "Which program? Write it behind two dashes: tessera exec job-412 -- nvidia-smi")
    terminal = "-t" if sys.stdin.isatty() and sys.stdout.isatty() else "-T"
    gateway = _find_gateway(ctx.obj)
    options = [*ssh_arguments(gateway), terminal, "-o", "LogLevel=ERROR", "-l", _find_name(ctx.obj, name)]
    exec_program("ssh", *options, gateway.alias, shlex.join(command))


@commands.command("cp", cls=Command)
def copy(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SRC", help="A path here, or NAME:PATH")],
    target: Annotated[str, typer.Argument(metavar="DST", help="A path here, or NAME:PATH")],
) -> None:
    """Copy files or folders into or out of a notebook or running job: tessera cp explore:out.pt ."""
    gateway = _find_gateway(ctx.obj)
    addresses = [_scp_address(ctx.obj, text, gateway.alias) for text in (source, target)]
    if sum(address != text for address, text in zip(addresses, (source, target), strict=True)) != 1:
        raise Failure(USAGE, "One of the two is here and the other there, such as explore:data/a.bin")
    exec_program("scp", "-r", *ssh_arguments(gateway), "--", *addresses)


@commands.command("ssh-config", cls=Command)
def ssh_config(
    ctx: typer.Context,
    write: Annotated[bool, typer.Option("--write", help="Into ~/.ssh/config, by an Include.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what --write would do.")] = False,
) -> None:
    """Let plain ssh, scp, rsync, sftp and VS Code know your notebooks and jobs by name.

    Without --write it prints the entries. Run it again when you have a new notebook.
    """
    session: Session = ctx.obj
    gateway = find_gateway(session)
    names = [one["name"] for one in session.client().get_all("/notebooks")["results"]]
    text = build_config(gateway, [name for name in names if SAFE_NAME.fullmatch(name)])
    file, own = config_file().parent / "ssh_config", Path.home() / ".ssh/config"
    if not write and not dry_run:
        print(text, end="")
        return
    whole = with_include(_read(own), file)
    changes = [str(path) for path, wanted in ((file, text), (own, whole)) if _read(path) != wanted]
    if not dry_run:
        store_host_key(gateway)
        for path, wanted in ((file, text), (own, whole)):
            if _read(path) != wanted:
                write_private_file(path, wanted)
    verb = "would be written" if dry_run else "is written"
    lines = [f"{path} {verb}." for path in changes] or ["Everything is as it should be."]
    session.show({"files": changes}, changes, [*lines, *(f"  ssh {name}" for name in names)])


def build_config(gateway: Gateway, names: list[str]) -> str:
    """Return our ssh_config; jobs are reached by ProxyJump through the gateway."""
    own = [f"  {name} {value}" for name, value in ssh_options(gateway).items()]
    inside = [line for line in own if not line.startswith(("  HostName", "  Port"))]
    lines = ["# Written by: tessera ssh-config --write. Changes here are lost.", f"Host {JUMP}", "  User tessera", *own]
    for name in sorted(names):
        lines += ["", f"Host {name}", f"  User {name}", *own]
    lines += ["", "Host job-* nb-*", f"  ProxyJump {JUMP}", *inside]
    return "\n".join([*lines, ""])


def with_include(text: str, file: Path) -> str:
    """Put our block first: below a Host line it would belong to that."""
    before, found, after = text.partition(f"{BEGIN}\n")
    rest = before + after.partition(f"{END}\n")[2] if found and f"{END}\n" in after else text
    return f'{BEGIN}\nInclude "{file}"\n{END}\n' + rest


def _find_gateway(session: Session) -> Gateway:
    """Return the gateway after storing its host key."""
    gateway = find_gateway(session)
    store_host_key(gateway)
    return gateway


def _scp_address(session: Session, text: str, host: str) -> str:
    found = REMOTE.fullmatch(text)
    return f"{_find_name(session, found['name'])}@{host}:{found['path']}" if found else text


def _find_name(session: Session, name: str) -> str:
    """Return what the gateway knows it by. Raises Failure."""
    if not SAFE_NAME.fullmatch(name):
        raise Failure(USAGE, f"{name!r} is no name of a notebook or job.")
    return find_gateway_name(session.client(), name)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(USAGE, f"{file} cannot be read ({error}). Check it.") from None
