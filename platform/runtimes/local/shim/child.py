"""The job's side of the fork: enter limits and namespaces, drop rights, exec the program. Never returns to the shim.

In a pid namespace the child stays as init: it forks the program and reaps orphans. `report` gets JSON lines: {"ready"}
once mounted, {"error": words}, {"status": as of waitpid}.
"""

import errno
import json
import os
import resource
import signal
import sys

from runtimes.local import isolation
from runtimes.local.shim import cgroups, memory_policy, mounts, secret_files
from runtimes.local.shim.rootfs import image_root
from runtimes.local.shim.secret_files import NO_SECRETS, Secrets

FORWARDED = (signal.SIGTERM,)  # blocked until handled


def become_job(plan: dict, go: int, out: int, report: int, secrets: Secrets = NO_SECRETS) -> None:
    """Become the job. plan: with `groups`. go: starts at a byte. out: program output."""
    try:
        isolation.die_with_parent()
        signal.set_wakeup_fd(-1)
        if os.read(go, 1) != b"g":
            os._exit(0)  # the shim is gone
        close_all_but(out, report)
        if plan["namespaces"]:
            isolation.unshare_mounts()
            if plan.get("image"):
                image_root.enter_image(plan)
            else:
                _cover_machine(plan)
            secret_files.mount_folder(plan, secrets)
            write_record(report, ready=True)
            _lead_namespace(plan, out, report, secrets)
        write_record(report, ready=True)
        _exec(plan, out, secrets)
    except BaseException as error:
        write_record(report, error=_describe_error(error, plan))
    finally:
        os._exit(127)


def _cover_machine(plan: dict) -> None:
    """Leave the machine's root, and cover what is not for the job."""
    if plan["uid"] is not None:
        copy = os.path.join(os.path.dirname(plan["scratch"]), "passwd")
        isolation.name_account(copy, plan["uid"], plan["gid"], *plan["account"])
    if plan.get("network"):  # plans of the previous version have none
        for path, by in mounts.list_network_files(plan):
            isolation.cover_file(path, by)
    libraries, sources = mounts.open_slice_files(plan), mounts.open_sources(plan)
    isolation.give_own_places(mounts.open_tmp(plan), plan["shm_mib"], plan["uid"])
    isolation.hide_paths(plan["hide"], sources)
    mounts.mount_slice_files(libraries)


def run_alone(path: str) -> None:
    """Run the program of a spec.json record at `path` without a shim or groups; exit 0 if it succeeds."""
    with open(path) as file:
        plan = json.load(file)["plan"] | {"groups": []}
    mounts.make_scratch(plan)
    mounts.prepare_mounts(plan)
    go_r, go_w = os.pipe2(os.O_CLOEXEC)
    os.write(go_w, b"g")
    if plan["namespaces"]:
        isolation.open_namespaces()
    child = os.fork()
    if child == 0:
        become_job(plan, go_r, os.dup(1), os.dup(2))
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) and 1)


def write_record(report: int, **record) -> None:
    os.write(report, json.dumps(record).encode() + b"\n")


def _lead_namespace(plan: dict, out: int, report: int, secrets: Secrets) -> None:
    """Run the program as the namespace's init: forward SIGTERM, exit last."""
    main = os.fork()
    if main == 0:
        try:
            _exec(plan, out, secrets)
        except BaseException as error:
            write_record(report, error=_describe_error(error, plan))
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
            write_record(report, status=status)
            signal.setitimer(signal.ITIMER_REAL, max(plan["grace_s"], 0.001))  # for what is left
            _signal_others()


def _signal_others() -> None:
    try:
        os.kill(-1, signal.SIGTERM)
    except ProcessLookupError:
        pass


def enter_limits(plan: dict) -> None:
    """Limit this process and its children."""
    if plan["cpus"]:
        os.sched_setaffinity(0, plan["cpus"])
    if plan.get("memory_node") is not None:  # plans of the previous version have none
        memory_policy.prefer_memory_of(plan["memory_node"])
    for group in plan["groups"]:
        cgroups.enter_group(group)
    if plan["processes_most"] and not plan["pids_parent"] and plan["uid"] is not None:
        most = plan["processes_most"]
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))  # of the whole account, so not the platform's own
    if plan["nice"]:
        os.nice(plan["nice"])


def run_program(plan: dict, argv: list[str], env: dict[str, str], cwd: str, ends: tuple[int, int, int]) -> None:
    """Drop rights and exec argv. ends: stdin, stdout, stderr. Raises OSError."""
    env = mounts.add_library_path(plan, env)
    kept = [os.dup(fd) if fd < 3 else fd for fd in ends]  # not overwritten by dup2
    for target, fd in enumerate(kept):
        os.dup2(fd, target)
    os.umask(0o022)
    isolation.drop_privileges(plan["uid"], plan["gid"])
    if not plan["namespaces"]:
        isolation.die_with_parent()  # cleared by changing the account
    os.chdir(cwd)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:  # a shell's `&` ignores some
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execve(_find(argv[0], env), argv, env)


def _exec(plan: dict, out: int, secrets: Secrets) -> None:
    os.setsid()
    enter_limits(plan)
    env = plan["env"] | secrets.env
    run_program(plan, plan["argv"], env, plan["cwd"], (os.open(os.devnull, os.O_RDONLY), out, out))


def _find(program: str, env: dict[str, str]) -> str:
    if "/" in program:
        return program
    for folder in env.get("PATH", "").split(":"):
        if os.access(path := os.path.join(folder, program), os.X_OK) and os.path.isfile(path):
            return path
    raise FileNotFoundError(errno.ENOENT, "no such program in PATH", program)


def close_all_but(*kept: int) -> None:
    """Close all descriptors above 2 but these, above all the lock, which only the shim holds."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in kept:
            try:
                os.close(fd)
            except OSError:
                pass  # of the listing


def _describe_error(error: BaseException, plan: dict) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError) and error.filename == plan["cwd"]:
        return f"The working directory {plan['cwd']} cannot be entered: {error.strerror}."
    return f"The job could not be started: {error}"
