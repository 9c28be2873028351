"""Shell completion from the platform: quick, silent, empty when unsure."""

from collections.abc import Callable, Iterable, Iterator

import typer

from cli.failures import Failure
from cli.http.credentials import find_server, read_token
from cli.http.transport import Client
from cli.output.cells import ENDED, OPEN

WITHIN_S = 2.0
MOST = 50

Completion = tuple[str, str]
"""A word and its description."""


def complete_job_ids(ctx: typer.Context, incomplete: str) -> list[Completion]:
    return _complete(ctx, incomplete, _load_jobs(incomplete))


def complete_open_job_ids(ctx: typer.Context, incomplete: str) -> list[Completion]:
    return _complete(ctx, incomplete, _load_jobs(incomplete, *OPEN))


def complete_ended_job_ids(ctx: typer.Context, incomplete: str) -> list[Completion]:
    return _complete(ctx, incomplete, _load_jobs(incomplete, *ENDED))


def complete_pools(ctx: typer.Context, incomplete: str) -> list[Completion]:
    return _complete(ctx, incomplete, lambda client: ((pool["name"], "") for pool in _load_results(client, "/pools")))


def complete_agent_names(ctx: typer.Context, incomplete: str) -> list[Completion]:
    return _complete(
        ctx, incomplete, lambda client: ((one["node"], one["state"]) for one in _load_results(client, "/agents"))
    )


def complete_node_names(ctx: typer.Context, incomplete: str) -> list[Completion]:
    return _complete(
        ctx, incomplete, lambda client: ((one["name"], one["state"]) for one in _load_results(client, "/nodes"))
    )


def complete_image_names(ctx: typer.Context, incomplete: str) -> list[Completion]:
    return _complete(ctx, incomplete, _load_images)


def complete_registry_names(ctx: typer.Context, incomplete: str) -> list[Completion]:
    return _complete(
        ctx, incomplete, lambda client: ((one["registry"], one["user"]) for one in _load_results(client, "/registries"))
    )


def complete_alerts(ctx: typer.Context, incomplete: str) -> list[Completion]:
    return _complete(
        ctx,
        incomplete,
        lambda client: (
            (f"alert-{one['id']}", f"{one['name']}, {one['label']}") for one in _load_results(client, "/alerts")
        ),
    )


def complete_view_names(ctx: typer.Context, incomplete: str) -> list[Completion]:
    return _complete(ctx, incomplete, lambda client: ((one["name"], "") for one in _load_results(client, "/me/views")))


def complete_template_names(ctx: typer.Context, incomplete: str) -> list[Completion]:
    return _complete(
        ctx,
        incomplete,
        lambda client: ((one["name"], one["description"]) for one in _load_results(client, "/templates")),
    )


def complete_notebook_names(ctx: typer.Context, incomplete: str) -> list[Completion]:
    return _complete(ctx, incomplete, _load_notebooks)


def complete_service_names(ctx: typer.Context, incomplete: str) -> list[Completion]:
    return _complete(
        ctx,
        incomplete,
        lambda client: ((one["name"], f"{one['id']}, {one['state']}") for one in _load_results(client, "/services")),
    )


def complete_schedule_names(ctx: typer.Context, incomplete: str) -> list[Completion]:
    return _complete(
        ctx,
        incomplete,
        lambda client: (
            (one["name"], f"{one['id']}, {one['cron']}") for one in _load_results(client, "/schedules", owner="me")
        ),
    )


def complete_shown_names(ctx: typer.Context, incomplete: str) -> list[Completion]:
    """Complete jobs and notebooks."""
    jobs = _load_jobs(incomplete)
    return _complete(ctx, incomplete, lambda client: [*jobs(client), *_load_notebooks(client)])


def enterable_names(ctx: typer.Context, incomplete: str) -> list[Completion]:
    """Complete notebooks and running jobs."""
    running = _load_jobs(incomplete, "running")
    return _complete(ctx, incomplete, lambda client: [*_load_notebooks(client), *running(client)])


def _load_jobs(incomplete: str, *states: str) -> Callable[[Client], Iterator[Completion]]:
    """Ask for one's jobs: ids, once something is written names as well, and after a dot the tasks of each."""

    def ask(client: Client) -> Iterator[Completion]:
        for job in _load_results(client, "/jobs", owner="me", state=",".join(states) or None):
            told = f"{job['name']}, {job['state']}", f"{job['id']}, {job['state']}"
            for stem, words in list(zip((job["id"], job["name"]), told, strict=True))[: 2 if incomplete else 1]:
                yield stem, words
                if "." in incomplete:
                    yield from ((f"{stem}.{task['role']}.{task['rank']}", job["state"]) for task in job["tasks"])

    return ask


def _load_notebooks(client: Client) -> Iterator[Completion]:
    return ((one["name"], f"{one['id']}, {one['state']}") for one in _load_results(client, "/notebooks"))


def _load_images(client: Client) -> Iterator[Completion]:
    return ((one["alias"], one["reference"]) for one in _load_results(client, "/images"))


def _load_results(client: Client, path: str, **query: str | None) -> list[dict]:
    return client.get(path, limit=MOST, **query)["results"]


def _complete(ctx: typer.Context, incomplete: str, ask: Callable[[Client], Iterable[Completion]]) -> list[Completion]:
    root = ctx.find_root().params.get("server")
    try:
        server = find_server(ctx.params.get("server") or root)
        client = Client(server, read_token(server), quiet=True, timeout_s=WITHIN_S, patient=False)
        found = list(ask(client))
    except (Failure, KeyError, TypeError):  # not signed in, no answer, or another version's
        return []
    given = {word for value in ctx.params.values() if isinstance(value, list | tuple) for word in map(str, value)}
    return [offer for offer in found if offer[0].startswith(incomplete) and offer[0] not in given]
