"""The local registry with the cached images, such as 10.88.0.1:5000/busybox:1.35."""

import http.client
import json
from pathlib import Path

from dev.cluster.images import IMAGES, MANIFEST, Image, layout_of, read_blob
from dev.cluster.paths import ADDRESS, REGISTRY, REGISTRY_PORT, ClusterPaths, Refusal, write
from dev.cluster.processes import start, wait_until

START_S = 30


def start_registry(paths: ClusterPaths) -> None:
    """Serve images by HTTP on the bridge, for this machine and its pods."""
    settings = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": f"{paths.state}/registry"}, "delete": {"enabled": True}},
        "http": {"addr": REGISTRY, "secret": "one process needs none to share"},
    }
    write(paths.state / "registry.json", json.dumps(settings))
    start(paths, "registry", "serve", f"{paths.state}/registry.json")
    wait_until(paths, "registry", responds, START_S)
    for image in IMAGES:
        push(image, layout_of(paths, image))


def name_of(image: Image) -> str:
    return f"{REGISTRY}/{image.name}:{image.tag}"


def default_image() -> str:
    """Return the smallest image with a shell, for jobs that name none."""
    return name_of(next(image for image in IMAGES if image.name == "busybox"))


def responds() -> bool:
    try:
        return ask("GET", "/v2/")[0] == http.client.OK
    except OSError:
        return False


def push(image: Image, layout: Path) -> str:
    """Push missing blobs, then the manifest; return the image's name."""
    described = json.loads((layout / "index.json").read_text())["manifests"][0]
    manifest = read_blob(layout, described["digest"])
    status, headers = ask("HEAD", f"/v2/{image.name}/manifests/{image.tag}", headers={"Accept": MANIFEST})
    if status == http.client.OK and headers["Docker-Content-Digest"] == described["digest"]:
        return name_of(image)
    content = json.loads(manifest)
    for blob in [content["config"], *content["layers"]]:
        push_blob(image.name, blob["digest"], read_blob(layout, blob["digest"]))
    expect(http.client.CREATED, "PUT", f"/v2/{image.name}/manifests/{image.tag}", manifest, MANIFEST)
    return name_of(image)


def push_blob(name: str, digest: str, content: bytes) -> None:
    headers = expect(http.client.ACCEPTED, "POST", f"/v2/{name}/blobs/uploads/")
    upload = headers["Location"].removeprefix(f"http://{REGISTRY}")
    expect(http.client.CREATED, "PUT", f"{upload}&digest={digest}", content, "application/octet-stream")


def expect(expected: int, method: str, path: str, body: bytes = b"", kind: str = "") -> http.client.HTTPMessage:
    status, headers = ask(method, path, body, {"Content-Type": kind} if kind else {})
    if status != expected:
        raise Refusal(f"The local registry answered {status} to {method} {path}.")
    return headers


def ask(method: str, path: str, body: bytes = b"", headers: dict | None = None) -> tuple[int, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection(ADDRESS, REGISTRY_PORT, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        response.read()
        return response.status, response.headers
    finally:
        connection.close()
