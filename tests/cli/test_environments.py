"""`tessera env`: a recipe is sent with its folder where it needs that, and names become ids."""

import json

ENVIRONMENT = {
    "id": "ds-3", "kind": "environment", "name": "sd-train", "team": "nlp", "owner": "ada", "description": "Diffusion",
    "share": "team", "shared_with": [], "newest": 3,
}  # fmt: skip


def rows(*found: dict) -> tuple:
    return 200, {"results": list(found), "next_cursor": None}


def test_ls_finds_those_with_a_package(server, tessera):
    server.on("GET /environments", rows(ENVIRONMENT))
    done = tessera("env", "ls", "--package", "numpy==2.0")
    assert done.stdout.splitlines()[1].split() == ["sd-train", "nlp", "v3", "team", "ada", "Diffusion"]


def test_a_recipe_is_built_with_its_folder_where_it_reads_of_it(server, tessera, tmp_path):
    recipe = tmp_path / "sd-train.yaml"
    server.on("POST /environments:build", (201, {"job": "job-7"}))
    recipe.write_text("name: sd-train\nbase: pytorch\npip: [numpy==2.0]\ntest: python -c 'import numpy'\n")
    assert "job-7 builds it" in tessera("env", "build", str(recipe)).stdout
    recipe.write_text("name: sd-train\npip: ['-r requirements.txt']\nfiles: {./a.yaml: etc/a.yaml}\n")
    server.on("POST /code", (201, {}))
    assert tessera("env", "build", str(recipe)).exit_code == 0
    plain, whole = (json.loads(body) for _, _, _, body in server.of("POST /environments:build"))
    assert plain == {
        "name": "sd-train", "base": "pytorch", "pip": ["numpy==2.0"], "test": "python -c 'import numpy'"
    }  # fmt: skip
    assert whole["code"].startswith("sha256:") and whole["files"] == {"./a.yaml": "etc/a.yaml"}
    recipe.write_text("- no recipe\n")
    assert tessera("env", "build", str(recipe)).exit_code == 2


def test_show_writes_lines_for_pip_and_diff_names_both(server, tessera):
    server.on("GET /environments", rows(ENVIRONMENT))
    server.on("GET /datasets/ds-3/versions/3/packages", rows({"name": "numpy", "version": "2.0", "before": "1.0"}))
    assert tessera("env", "show", "sd-train@3").stdout == "numpy==2.0\n"
    lines = tessera("env", "diff", "sd-train@2", "nlp/sd-train@v3").stdout.splitlines()
    assert lines[1].split() == ["numpy", "1.0", "2.0"]
    server.on("DELETE /datasets/ds-3/versions/3", (204, {}))
    assert tessera("env", "rm", "sd-train@3").exit_code == 0 and tessera("env", "rm", "sd-train").exit_code == 2


def test_a_notebook_is_saved(server, tessera):
    version = {"name": "nlp/sd-train@v4", "state": "taking"}
    server.on("POST /notebooks/nb-5:save-environment", (201, version))
    assert "nlp/sd-train@v4 is being taken" in tessera("env", "save", "nb-5", "sd-train").stdout
