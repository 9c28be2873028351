"""The image and docker-compose.yml carry what the program needs. Nothing is built: the copied files alone must do."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from runtimes import slice_library

ROOT = Path(__file__).parents[2]
ASK = """
import config.asgi, config.celery, notebooks.build_environment
from django.conf import settings
from django.core.management import call_command
from portal.api.about import describe

call_command("check")
print(settings.TESSERA_VERSION, describe()["openapi"])
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """What the Dockerfile copies, and no more of this tree."""
    image = tmp_path_factory.mktemp("image")
    copy_stage(re.split(r"^FROM ", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)[-1], image)
    return image


def copy_stage(stage, image):
    for line in re.findall(r"^COPY (?!--from)(.+)$", stage, re.MULTILINE):
        *sources, target = line.split()
        (image / target).parent.mkdir(parents=True, exist_ok=True)
        for source in map(ROOT.joinpath, sources):
            if source.is_dir():
                shutil.copytree(source, image / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, image / target.removeprefix("/src/"))


def test_the_documents_need_no_file_that_their_stage_lacks(tmp_path):
    copy_stage((ROOT / "Dockerfile").read_text().split(" AS docs\n")[1].split("\nFROM ")[0], tmp_path)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "dev.docs.build"], cwd=tmp_path, env=clean, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert (tmp_path / ".site/index.html").is_file()


def test_what_is_only_for_tests_benches_and_development_is_not_in_the_image(image):
    there = {path.relative_to(image).as_posix() for path in image.iterdir()}
    code = {"agent", "deploy", "locale", "platform", "portal", "scheduler", "static", "templates"}
    assert there == {*code, "manage.py", "pyproject.toml"}
    assert [path.name for path in (image / "deploy").iterdir()] == ["kubernetes"]
    assert {"tests", "bench", "dev/*", "!dev/docs"} <= set((ROOT / ".dockerignore").read_text().split())


@pytest.mark.slow
def test_the_program_needs_no_file_that_the_image_lacks(image):
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")},
        "PYTHONPATH": f"{image}{os.pathsep}{image / 'platform'}",
        "PYTHONSAFEPATH": "1",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "TESSERA_DATA": str(image / "data"),
    }
    done = subprocess.run([sys.executable, "-c", ASK], cwd=image, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith(" 3.1.0\n"), done.stderr


def test_the_image_has_the_slice_library_where_the_settings_look():
    """What its first stage does, done here: it installs all that the platform takes, and the agent's hook besides."""
    text = (ROOT / "Dockerfile").read_text()
    installed = re.search(r"install -D -t /out (.+)$", text, re.MULTILINE)[1].split()
    assert {Path(path).name for path in installed} == {*slice_library.BUILT, "slicehook"}
    place = re.search(r"TESSERA_SLICE=(\S+)", text)[1]
    assert f"COPY --from=slice /out {place}\n" in text


def test_every_variable_of_the_services_is_one_that_the_settings_read():
    services = YAML(typ="safe").load(ROOT / "docker-compose.yml")["services"]
    known = set(re.findall(r"`(TESSERA_\w+)`", (ROOT / "docs/reference/settings.md").read_text()))
    said = {name for one in services.values() for name in one.get("environment", {}) if name.startswith("TESSERA_")}
    assert said and not said - known


def test_a_service_takes_each_queue_and_prepares_notebooks():
    services = YAML(typ="safe").load(ROOT / "docker-compose.yml")["services"]
    commands = [" ".join(one.get("command", [])) for one in services.values()]
    beat = (ROOT / "platform/config/celery.py").read_text()
    for queue in set(re.findall(r'"queue": "(\w+)"', beat)):
        assert any(re.search(rf"-Q \S*\b{queue}\b", command) for command in commands), queue
    assert any("notebooks.build_environment" in command for command in commands)


def test_compose_tells_which_of_the_processes_is_stuck():
    services = YAML(typ="safe").load(ROOT / "docker-compose.yml")["services"]
    of_celery = {name: service for name, service in services.items() if "celery" in service.get("command", ())}
    assert of_celery.keys() == {"worker", "sender", "beat"}
    for service in of_celery.values():
        assert f"find {service['environment']['TESSERA_ALIVE']} " in service["healthcheck"]["test"][1]
