"""Where a command of SSH begins: in a notebook's folder, which is kept, and not in the work directory of its start."""

import subprocess

from portal.gateway.ssh.session import COMMAND


def run(command, work, **environment):
    argv = ["/bin/sh", "-c", COMMAND, "sh", command]
    return subprocess.check_output(argv, cwd=work, env={"PATH": "/usr/bin:/bin", **environment}, text=True).split()


def test_in_a_notebook_it_begins_in_its_folder_with_the_python_of_its_pages(tmp_path):
    (tmp_path / "notebooks/explore").mkdir(parents=True)
    notebook = {"HOME": str(tmp_path), "NOTEBOOK_FOLDER": "notebooks/explore", "TESSERA_TOOLS": "/tools"}
    told = run("pwd; echo $PATH", "/", **notebook)
    assert told == [str(tmp_path / "notebooks/explore"), "/tools/bin:/usr/bin:/bin"]


def test_in_a_notebook_whose_image_brings_its_pages_the_image_says_which_python(tmp_path):
    assert run("echo $PATH", "/", HOME=str(tmp_path), NOTEBOOK_FOLDER=".") == ["/usr/bin:/bin"]


def test_in_a_job_it_begins_where_the_job_works(tmp_path):
    assert run("pwd; echo $PATH", tmp_path, HOME="/", TESSERA_TOOLS="/tools") == [str(tmp_path), "/usr/bin:/bin"]
