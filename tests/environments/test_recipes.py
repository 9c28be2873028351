"""Recipes: what is wrong with one is told at its place, and what it says stays words to the shell that runs it."""

import shutil
import subprocess

import pytest

from common.errors import InvalidInput
from datasets.packages import read_packages
from environments.recipes import REQUIREMENTS, Recipe, build_job_spec, check_recipe, write_script
from jobs.jobfile.dump import dump_yaml
from jobs.jobfile.load import load_jobfile
from jobs.jobfile.parse import parse_spec
from runtimes.dataset_store.manifest import FILE, FOLDER, Entry

GOOD = Recipe(name="sd-train", base="pytorch", pip=("diffusers==0.31.0", "numpy"), test="python -c 'import numpy'")
CODE = "sha256:" + "0f" * 32


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"name": "SD"}, ("/name", "bad_dataset_name")),
        ({"pip": ()}, ("/pip", "recipe_is_empty")),
        ({"pip": ("numpy", "a\nb")}, ("/pip/1", "bad_requirement")),
        ({"pip": ("-r requirements.txt",)}, ("/code", "recipe_needs_code")),
        ({"files": {"a/b.yaml": "../b"}, "code": CODE}, ("/files/a~1b.yaml", "bad_recipe_file")),
        ({"files": {"a": "b"}}, ("/code", "recipe_needs_code")),
    ],
)
def test_what_is_wrong_is_told_at_its_place(said, wrong):
    with pytest.raises(InvalidInput) as refused:
        check_recipe(Recipe(**{"name": "ok", "pip": ("numpy",), **said}))
    assert [(one.pointer, one.code) for one in refused.value.errors] == [wrong]


def test_a_build_is_a_job_that_can_be_written_down_and_submitted_again():
    check_recipe(GOOD)
    spec = build_job_spec(GOOD)
    assert parse_spec(load_jobfile(dump_yaml(spec).encode())) == spec
    assert (spec.image, spec.outputs) == ("pytorch", {"env": "environment:sd-train"})


def test_nothing_that_a_recipe_says_leaves_its_quotes(tmp_path):
    bad = "x'; touch \"$HOME\"/bad; echo '$(touch bad)"
    for name in ("python3", "python"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a file; touch bad").write_text("settings")
    recipe = Recipe(name="a", pip=(bad,), files={"a file; touch bad": "etc/$(touch bad)'"}, test="true", code=CODE)
    places = {"HOME": str(tmp_path), "VIRTUAL_ENV": str(tmp_path / "env"), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["sh", "-c", write_script(recipe)], cwd=tmp_path / "work", env=places, check=True)
    assert (tmp_path / "work" / REQUIREMENTS).read_text() == f"{bad}\n"
    assert (tmp_path / "env/etc/$(touch bad)'").read_text() == "settings"
    assert not list(tmp_path.rglob("bad"))


def test_what_wants_a_compiler_is_named_where_there_is_none(tmp_path):
    for name, does in {"python3": "", "python": "echo '  ERROR: Failed building wheel for pesq'; exit 1"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("cat", "mktemp", "sed", "sort", "tee", "tr"):
        (tmp_path / name).symlink_to(shutil.which(name))
    argv = ["/bin/sh", "-c", write_script(Recipe(name="a", pip=("pesq",)))]
    done = subprocess.run(
        argv, cwd=tmp_path, env={"PATH": str(tmp_path), "VIRTUAL_ENV": "env"}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "There is no compiler here for what has to be compiled: pesq - choose a base with one" in done.stdout


def test_packages_are_read_from_the_names_of_folders():
    site = "lib/python3.11/site-packages"
    names = ["Foo.Bar-1.0.dist-info", "pip-23.dist-info", "b-2.dist-info/licenses", "no_dist", "Foo_Bar-1.0.dist-info"]
    manifest = [Entry(FOLDER, f"{site}/{name}") for name in names] + [Entry(FILE, f"{site}/x-1.dist-info")]
    assert read_packages(manifest) == {"foo-bar": "1.0"}
