"""API of notebooks."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import NotFound
from notebooks.models import Notebook
from notebooks.services import (
    change_notebook,
    clone_notebook,
    create_and_start,
    create_notebook,
    delete_notebook,
    extend_notebook,
    start_notebook,
    stop_notebook,
)
from notebooks.states import NotebookState
from portal.api.http.bodies import read_json
from portal.api.http.fields import full_url
from portal.api.http.headers import ETAG, IF_MATCH, KEY, etag_of, read_if_match, read_once
from portal.api.http.lists import PageQuery, SortField, StatesField, list_of, page, read_moment, read_name
from portal.api.notebooks.shapes import Changes, Farewell, Hours, Name, NewNotebook, NotebookShape, NotebookWhole, Start
from portal.api.view import ApiView, read_query
from scheduler.preview.preview import check_possible
from scheduler.preview.runtime_capabilities import runtime_has_containers

WRITE = ("notebooks:write",)
READ = ("notebooks:read",)


def find_notebook(request: Request, notebook_id: str) -> Notebook:
    """Return a notebook. Raises NotFound also for others'."""
    rows = Notebook.objects.visible_to(request.user).with_names()
    found = rows.filter(pk=int(notebook_id.removeprefix("nb-"))).first()
    if found is None:
        raise NotFound(kind="notebook", id=notebook_id)
    return found


def made(notebook: Notebook) -> Response:
    address = full_url("api-notebook", notebook_id=notebook.public_id)
    return Response(NotebookWhole(notebook).data, status=201, headers={"Location": address})


def show(notebook: Notebook) -> Response:
    return Response(NotebookWhole(notebook).data, headers={"ETag": etag_of(notebook.version)})


class NotebooksQuery(PageQuery):
    """State filter, team and part of the name."""

    state = StatesField(NotebookState)
    team = serializers.CharField(max_length=64, required=False)
    q = serializers.CharField(max_length=100, required=False)
    sort = SortField({"name": read_name, "created_at": read_moment})


class NotebookList(ApiView):
    scopes = {"GET": READ, "POST": WRITE}
    operations = {"GET": "list_notebooks", "POST": "create_notebook"}
    refusals = {"POST": ("409", "422", "507")}

    @extend_schema(parameters=[NotebooksQuery], responses=list_of(NotebookShape, "NotebookPage"))
    def get(self, request: Request) -> Response:
        """List one's own notebooks, newest first."""
        query, rows = read_query(request, NotebooksQuery), Notebook.objects.visible_to(request.user).with_names()
        if states := query.get("state"):
            rows = rows.in_states(states)
        if "team" in query:
            rows = rows.filter(team__name__iexact=query["team"])
        if "q" in query:
            rows = rows.filter(name__icontains=query["q"])
        return page(rows, query, NotebookShape)

    @extend_schema(parameters=[KEY], request=NewNotebook, responses={201: NotebookWhole})
    def post(self, request: Request) -> Response:
        """Create a notebook, and start it if `start` says so. Its name is unique among one's own."""
        said = read_json(request, NewNotebook)
        once = read_once(request, said)
        if not said.pop("start"):
            return made(create_notebook(user=request.user, **said, **once))
        containers = runtime_has_containers()
        asked = {**said, **once}
        return made(create_and_start(user=request.user, check=check_possible, containers=containers, **asked))


class NotebookDetail(ApiView):
    http_method_names = ["get", "head", "patch", "delete"]
    scopes = {"GET": READ, "PATCH": WRITE, "DELETE": WRITE}
    operations = {"GET": "get_notebook", "PATCH": "change_notebook", "DELETE": "delete_notebook"}
    refusals = {"DELETE": ("409",), "PATCH": ("409", "412")}

    @extend_schema(parameters=[ETAG], responses=NotebookWhole)
    def get(self, request: Request, notebook_id: str) -> Response:
        """Show a notebook, with the phases of its newest start."""
        return show(find_notebook(request, notebook_id))

    @extend_schema(parameters=[ETAG, IF_MATCH], request=Changes, responses=NotebookWhole)
    def patch(self, request: Request, notebook_id: str) -> Response:
        """Rename it, or change its next start."""
        notebook, said = find_notebook(request, notebook_id), read_json(request, Changes)
        return show(change_notebook(actor=request.user, notebook=notebook, versions=read_if_match(request), **said))

    @extend_schema(parameters=[Farewell], responses={204: None})
    def delete(self, request: Request, notebook_id: str) -> Response:
        """Delete a stopped notebook, named once more."""
        notebook = find_notebook(request, notebook_id)
        delete_notebook(actor=request.user, notebook=notebook, **read_query(request, Farewell))
        return Response(status=204)


class NotebookAction(ApiView):
    scopes = {"POST": WRITE}
    refusals: dict[str, tuple[str, ...]] = {"POST": ("409",)}


class NotebookStart(NotebookAction):
    operations = {"POST": "start_notebook"}
    refusals = {"POST": ("409", "422", "503", "507")}

    @extend_schema(parameters=[KEY], request=Start, responses=NotebookWhole)
    def post(self, request: Request, notebook_id: str) -> Response:
        """Start it; a started one stays as it is. A smaller `gpu` replaces a waiting start."""
        notebook, said = find_notebook(request, notebook_id), read_json(request, Start)
        started = start_notebook(
            actor=request.user,
            notebook=notebook,
            check=check_possible,
            containers=runtime_has_containers(),
            **said,
            **read_once(request, said),
        )
        return Response(NotebookWhole(started).data)


class NotebookStop(NotebookAction):
    operations = {"POST": "stop_notebook"}

    @extend_schema(request=None, responses=NotebookWhole)
    def post(self, request: Request, notebook_id: str) -> Response:
        """Stop it; its files stay."""
        stopped = stop_notebook(actor=request.user, notebook=find_notebook(request, notebook_id))
        return Response(NotebookWhole(stopped).data)


class NotebookClone(NotebookAction):
    operations = {"POST": "clone_notebook"}

    @extend_schema(request=Name, responses={201: NotebookWhole})
    def post(self, request: Request, notebook_id: str) -> Response:
        """Create one with the same settings and an empty folder."""
        notebook = find_notebook(request, notebook_id)
        return made(clone_notebook(actor=request.user, notebook=notebook, **read_json(request, Name)))


class NotebookExtend(NotebookAction):
    operations = {"POST": "extend_notebook"}

    @extend_schema(request=Hours, responses=NotebookWhole)
    def post(self, request: Request, notebook_id: str) -> Response:
        """Extend it, within the limit."""
        notebook = find_notebook(request, notebook_id)
        extended = extend_notebook(actor=request.user, notebook=notebook, **read_json(request, Hours))
        return Response(NotebookWhole(extended).data)
