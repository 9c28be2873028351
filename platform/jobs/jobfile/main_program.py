"""The main program of a job (`main` in its file): it runs in the first task of a role, beside the role's command."""

from jobs.jobfile.spec import JobSpec, MainProgram, RoleSpec


def build_command(main: MainProgram, role: RoleSpec) -> str:
    """Return what the shell runs of the first task of the role that the main program names.

    The main program's exit code is the task's; with `ends_job: false` the task goes on, once that succeeded, until the
    role's own command ends.
    """
    beside = f"(\n{role.run}\n) &\n"
    if main.ends_job:
        return f"{beside}(\n{main.run}\n)\nexit\n"
    return f'{beside}tessera_role=$!\n(\n{main.run}\n) || exit\nwait "$tessera_role"\n'


def ends_job_of(spec: JobSpec, role: RoleSpec) -> str:
    """Return after which of a role's tasks the job is done: "any", "all" or ""."""
    runs_main = spec.main is not None and spec.main.role == role.name and spec.main.ends_job
    return "any" if runs_main else role.ends_job
