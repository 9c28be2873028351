"""The job's side of the fork: enter the limits and namespaces, give up the rights, become the user's program.

With a pid namespace the forked child stays as its first process: it forks the program, reaps what is orphaned, and
when it goes the kernel takes everybody else along. What goes wrong before the program runs is told on `report`,
one JSON object per line: {"ready": true} when its view of the files stands, {"error": words} or {"status": as of
waitpid}.
Nothing here returns to the shim.
"""

import errno
import json
import os
import signal

from runtimes.local import isolation, limits, mounts, slice_view

FORWARDED = (signal.SIGTERM,)  # blocked around the fork, so that none is lost before its handler stands


def become_job(plan: dict, go: int, out: int, report: int) -> None:
    """plan: as in spec.json, with `groups` added. go: a byte on it means start. out: where the program writes."""
    try:
        isolation.die_with_parent()
        signal.set_wakeup_fd(-1)
        if os.read(go, 1) != b"g":
            os._exit(0)  # the shim is gone: nothing has begun
        close_all_but(out, report)
        if plan["namespaces"]:
            isolation.open_view()
            if plan["uid"] is not None:
                copy = os.path.join(os.path.dirname(plan["scratch"]), "passwd")
                isolation.name_account(copy, plan["uid"], plan["gid"], *plan["account"])
            libraries = slice_view.open_files(plan)
            isolation.hide(plan["hide"], mounts.open_sources(plan))
            slice_view.cover(libraries)
            tell(report, ready=True)
            _lead_namespace(plan, out, report)
        tell(report, ready=True)
        _exec(plan, out)
    except BaseException as error:
        tell(report, error=_words(error, plan))
    finally:
        os._exit(127)


def tell(report: int, **record) -> None:
    os.write(report, json.dumps(record).encode() + b"\n")


def _lead_namespace(plan: dict, out: int, report: int) -> None:
    """Be the first process: never dies of SIGTERM, hands it to all others, ends when all others have."""
    main = os.fork()
    if main == 0:
        try:
            _exec(plan, out)
        except BaseException as error:
            tell(report, error=_words(error, plan))
        os._exit(127)
    os.close(out)
    signal.signal(signal.SIGTERM, lambda *_: _signal_others())
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(0)
        if pid == main:
            tell(report, status=status)
            signal.setitimer(signal.ITIMER_REAL, max(plan["grace_s"], 0.001))  # what it left behind may say goodbye
            _signal_others()


def _signal_others() -> None:
    try:
        os.kill(-1, signal.SIGTERM)
    except ProcessLookupError:
        pass


def enter_limits(plan: dict) -> None:
    """plan: with `groups`. For this process and all that come from it."""
    if plan["cpus"]:
        os.sched_setaffinity(0, plan["cpus"])
    for group in plan["groups"]:
        limits.enter(group)
    if plan["processes_most"] and not plan["pids_parent"] and plan["uid"] is not None:
        limits.limit_account(plan["processes_most"])  # never the platform's own account
    if plan["nice"]:
        os.nice(plan["nice"])


def run_program(plan: dict, argv: list[str], env: dict[str, str], cwd: str, ends: tuple[int, int, int]) -> None:
    """Give up the rights and become argv, looked up in env's PATH. ends: its stdin, stdout and stderr.

    Raises OSError; returns never.
    """
    env = slice_view.environment(plan, env)
    kept = [os.dup(fd) if fd < 3 else fd for fd in ends]  # so that none of them covers another
    for target, fd in enumerate(kept):
        os.dup2(fd, target)
    os.umask(0o022)
    isolation.drop_to(plan["uid"], plan["gid"])
    if not plan["namespaces"]:
        isolation.die_with_parent()  # changing the account switched it off
    os.chdir(cwd)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:  # a script's `&` ignores some for ever
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execve(_find(argv[0], env), argv, env)


def _exec(plan: dict, out: int) -> None:
    os.setsid()
    enter_limits(plan)
    run_program(plan, plan["argv"], plan["env"], plan["cwd"], (os.open(os.devnull, os.O_RDONLY), out, out))


def _find(program: str, env: dict[str, str]) -> str:
    if "/" in program:
        return program
    for folder in env.get("PATH", "").split(":"):
        if os.access(path := os.path.join(folder, program), os.X_OK) and os.path.isfile(path):
            return path
    raise FileNotFoundError(errno.ENOENT, "no such program in PATH", program)


def close_all_but(*kept: int) -> None:
    """The lock above all: the shim alone holds it."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in kept:
            try:
                os.close(fd)
            except OSError:
                pass  # the descriptor of the listing itself


def _words(error: BaseException, plan: dict) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError) and error.filename == plan["cwd"]:
        return f"The working directory {plan['cwd']} cannot be entered: {error.strerror}."
    return f"The job could not be started: {error}"
