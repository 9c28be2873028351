"""One volume for all: a job of a cluster, its person's notebook and the portal see the same files."""

import gzip
import io
import json
import shutil
import tarfile
import urllib.request
from pathlib import Path

import pytest

from bench.stack import Stack, running_stack
from config.embedded.data_dir import MARK
from dev.cluster.notebook_image import JUPYTER, make_notebook_image
from dev.cluster.parts.storage import CLASS, PROVISIONER
from dev.cluster.registry import default_image, push
from portal.api.files.uploads import PIECE_TYPE
from runtimes.kubernetes.api.client import ApiServer
from runtimes.kubernetes.api.credentials import CredentialSource
from tests.e2e.test_notebook import LAB_MS, wait_for_state
from tests.local_cluster import local_place
from tests.runtimes.kubernetes.world import REAL_NODE, leave_nothing

pytestmark = [pytest.mark.kubernetes, pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]
BESIDE_OTHERS = True
SMALL = {"gpu": "0", "cpu": 0.1, "memory": "128MB"}
LAB = {"gpu": "0", "cpu_milli": 500, "memory_mib": 1000}


@pytest.fixture(scope="module")
def stack(kubeconfig):
    with ApiServer(CredentialSource(kubeconfig)) as api:
        _, found = api.call("GET", f"/apis/storage.k8s.io/v1/storageclasses/{CLASS}", handles=("gone",))
    if found.get("provisioner") != PROVISIONER:
        pytest.skip("NO VOLUME: the cluster is not bin/cluster's.")
    notebooks = push(JUPYTER, make_notebook_image(local_place()))
    images = {"TESSERA_IMAGE": default_image(), "TESSERA_NOTEBOOK_IMAGE": notebooks}
    there = {"KUBECONFIG": str(kubeconfig), "TESSERA_NODES": f"{REAL_NODE}=true", "TESSERA_IMAGE_PULL": "IfNotPresent"}
    with running_stack(cluster=there | images) as stack:
        install = (stack.data / MARK).read_text()
        try:
            yield stack
        finally:
            stack.end_jobs()
            leave_nothing(kubeconfig, install, within_s=60)
            shutil.rmtree(Path(found["parameters"]["directory"], install), ignore_errors=True)


def send(stack: Stack, method: str, path: str, kind: str = "", body: bytes | None = None, **more: str) -> bytes:
    headers = {"Authorization": f"Bearer {stack.token}", "Content-Type": kind, **more}
    request = urllib.request.Request(f"{stack.url}/api/v1{path}", body, headers, method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read()


def upload(stack: Stack, path: str, content: bytes) -> None:
    begun = stack.api("POST", "/files/uploads", {"place": "home", "path": path, "size": len(content)})
    send(stack, "PATCH", f"/files/uploads/{begun['id']}", PIECE_TYPE, content, **{"Upload-Offset": "0"})


def pack(**files: str) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"src/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(raw.getvalue())


def test_a_job_of_uploaded_code_reads_what_was_uploaded_and_the_portal_reads_what_it_made(stack):
    stack.api("POST", "/files:mkdir", {"place": "home", "path": "sets"})
    upload(stack, "sets/words", b"a cat")
    code = json.loads(send(stack, "POST", "/code", "application/gzip", pack(train="cat in/words >~/made")))
    asked = {"run": "sh train", "code": code["digest"], "workdir": "src", "data": {"src/in": "home:sets:ro"}, **SMALL}
    job = stack.api("POST", "/jobs", asked)["id"]
    ended = stack.wait_for(job, "succeeded", "failed", seconds=120)
    assert ended["state"] == "succeeded", ended
    assert send(stack, "GET", "/files/content?place=home&path=made") == b"a cat"


def test_a_notebook_prints_and_finds_its_files_when_it_is_started_again(stack: Stack, chromium):
    page = chromium.new_context().new_page()
    page.goto(stack.login_link)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{stack.url}/")
    notebook = stack.api("POST", "/notebooks", {"name": "explore", **LAB})["id"]
    stack.api("POST", f"/notebooks/{notebook}:start", {})
    page.goto(f"{stack.url}/n/{notebook}/open")  # it goes on by itself
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").click(timeout=LAB_MS)
    page.keyboard.type("print(6 * 7)")
    page.get_by_text("| Idle").first.wait_for(timeout=LAB_MS)
    page.keyboard.press("Shift+Enter")
    page.locator(".jp-OutputArea-output").get_by_text("42", exact=True).wait_for(timeout=LAB_MS)
    page.keyboard.press("Control+s")
    page.locator(".jp-mod-dirty").first.wait_for(state="detached")

    stack.api("POST", f"/notebooks/{notebook}:stop")
    wait_for_state(stack, notebook, "stopped")
    page.goto(f"{stack.url}/files/?path=notebooks/explore")
    page.get_by_text("Untitled.ipynb").first.wait_for()
    page.goto(f"{stack.url}/n/{notebook}/open")
    page.get_by_role("button", name="Start").click()
    page.locator(".jp-Notebook .jp-OutputArea-output").get_by_text("42", exact=True).wait_for(timeout=LAB_MS)
    page.context.close()
