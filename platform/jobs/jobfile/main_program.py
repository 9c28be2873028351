"""The main program of a job (`main` in its file): it runs in the first task of a role, beside the role's command."""

from jobs.jobfile.spec import JobSpec, RoleSpec


def build_command(spec: JobSpec, role: RoleSpec, *, is_first: bool) -> str:
    """Return what the shell of a task runs. is_first: the first task of its role.

    The main program's exit code is the task's; with `ends_job: false` the task goes on, once that succeeded, until the
    role's own command ends.
    """
    if spec.main is None or spec.main.role != role.name or not is_first:
        return role.run
    beside = f"(\n{role.run}\n) &\n"
    if spec.main.ends_job:
        return f"{beside}(\n{spec.main.run}\n)\nexit\n"
    return f'{beside}tessera_role=$!\n(\n{spec.main.run}\n) || exit\nwait "$tessera_role"\n'


def ends_job_of(spec: JobSpec, role: RoleSpec) -> str:
    """Return after which of a role's tasks the job is done: "any", "all" or ""."""
    runs_main = spec.main is not None and spec.main.role == role.name and spec.main.ends_job
    return "any" if runs_main else role.ends_job
