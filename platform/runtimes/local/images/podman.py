"""Ask podman to pull, describe and remove images of our store. It runs nothing, and mounts nothing."""

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtimes.images.names import ImageName
from runtimes.local import isolation
from runtimes.local.images.image_store import ImageStore, Login

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOOK_S = 0.2
RESERVE_BYTES = 1 << 30
"""Of the disk, which no pull may take."""
AROUND = re.compile(r"(^|.*\s)Error: |initializing source docker://\S+: |copying system image from manifest list: ")
"""What podman wraps around the registry's own message."""
LONGEST_WORDS = 400


class PodmanFailed(Exception):
    """It did not do it; the message is its own."""


@dataclass(frozen=True)
class Podman:
    """env: proxies. authority: extra CA file, or "". plain: registries without TLS. most_bytes: of a pull."""

    store: ImageStore
    env: Mapping[str, str] = field(default_factory=dict)
    authority: str = ""
    plain: Sequence[str] = ()
    most_bytes: int = 1 << 60

    def pull(self, image: ImageName, login: Login) -> str:
        """Pull an image with a login, or as anybody; return its id. Raises PodmanFailed."""
        at = f"@{image.digest}" if image.digest else f":{image.tag}"
        trust = ["--tls-verify=false"] if image.registry in self.plain else []
        with _auth_file(login) as auth:
            command = ["pull", "--quiet", "--authfile", f"/proc/self/fd/{auth}", *trust]
            said = self._run([*command, f"docker://{image.registry}/{image.repository}{at}"], auth)
        return said.split()[-1]

    def inspect(self, name: str) -> dict[str, Any]:
        """Return what is known of an image by its name or id. Raises PodmanFailed."""
        return json.loads(self._run(["image", "inspect", name]))[0]

    def list_images(self) -> list[dict[str, Any]]:
        return json.loads(self._run(["image", "ls", "--format", "json"]) or "[]")

    def load(self, archive: Path) -> None:
        """Bring in an archive of `docker save`. Raises PodmanFailed."""
        self._run(["load", "--quiet", "--input", str(archive)])

    def remove(self, id: str) -> None:
        self._run(["image", "rm", "--force", id])

    def _run(self, arguments: Sequence[str], *handed: int) -> str:
        env = {"PATH": PATH, "HOME": str(self.store.folder), "TMPDIR": str(self.store.folder / "tmp")} | dict(self.env)
        env["CONTAINERS_STORAGE_CONF"] = str(self.store.config)
        if self.authority:
            env["SSL_CERT_FILE"] = self.authority
        command = ["podman", "--events-backend", "none", "--tmpdir", str(self.store.folder / "run/podman"), *arguments]
        with open(os.memfd_create("out"), "w+b") as out, open(os.memfd_create("err"), "w+b") as err:
            try:
                process = subprocess.Popen(
                    command,
                    env=env,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    pass_fds=handed,
                    preexec_fn=isolation.die_with_parent,
                )
            except OSError as error:
                raise PodmanFailed(f"podman cannot be run: {error.strerror}") from error
            full = self._wait(process)
            texts = [os.pread(file.fileno(), 1 << 24, 0).decode(errors="replace") for file in (out, err)]
        if full or process.returncode:
            raise PodmanFailed(full or shorten_error(texts[1]) or f"podman ended with {process.returncode}")
        return texts[0]

    def _wait(self, process: subprocess.Popen) -> str:
        """Wait for its end; kill it, and say so, when it takes more of the disk than it may."""
        before, layers = shutil.disk_usage(self.store.folder).free, self.store.list_layers()
        while True:
            try:
                process.wait(LOOK_S)
                return ""
            except subprocess.TimeoutExpired:
                free = shutil.disk_usage(self.store.folder).free
            if free < RESERVE_BYTES or (before - free > self.most_bytes and self._measure(layers) > self.most_bytes):
                process.kill()
                process.wait()
                return "no space left on device: the image takes more than this machine has for images"

    def _measure(self, before: set[str]) -> int:
        """Return the bytes that came since: others write on this disk as well. before: layers of the store then."""
        came = self.store.list_layers() - before
        return measure_folders(self.store.folder / "tmp", *(self.store.overlay / layer for layer in came))


def shorten_error(text: str) -> str:
    """Return the registry's message from what podman printed."""
    lines = [line for line in text.splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if line.startswith("Error: ")), lines[-1] if lines else "")
    return AROUND.sub("", last).strip()[:LONGEST_WORDS]


def measure_folders(*folders: Path) -> int:
    """Return the bytes on the disk of all that is in them; what goes meanwhile does not count."""
    command = ["du", "--summarize", "--total", "--block-size=1", *map(str, folders)]
    done = subprocess.run(command, env={"PATH": os.defpath}, capture_output=True, text=True, check=False)
    return int(done.stdout.splitlines()[-1].split()[0])


@contextmanager
def _auth_file(login: Login):
    """Yield a file in memory, which no other process reads, in the form of docker's config.json."""
    auths = {}
    if login:
        registry, user, password = login
        auths[registry] = {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}
    with open(os.memfd_create("login"), "wb", buffering=0) as file:
        file.write(json.dumps({"auths": auths}).encode())
        yield file.fileno()
