"""Build the job spec and the JupyterLab command of a notebook start."""

import json
from dataclasses import replace

from common.resources import parse_gpu
from jobs.jobfile.spec import JobSpec, from_json
from notebooks.kept_packages import LABEL, SCRIPT
from notebooks.models import Notebook

JUPYTER_PORT = 8888

FIRST, TABS = "Untitled.ipynb", ".jupyterlab"
"""In the notebook's folder: the page made in an empty one, and the open tabs."""

EMPTY_PAGE = {
    "cells": [{"id": "1", "cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": []}],
    "metadata": {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}

# -s: packages installed at home cannot break JupyterLab. Kernels use socket files, limited to 107 bytes of name,
# hence the short directory. JupyterLab's pings are off: tornado reads their ms as seconds.
COMMAND = (
    """
[ -z "$VIRTUAL_ENV" ] || PATH=${{PATH#"$VIRTUAL_ENV/bin:"}} # JupyterLab runs by the base's Python
python=$TESSERA_TOOLS/bin/python
if [ -z "$TESSERA_TOOLS" ]; then
  python=$(command -v python3)
  "$python" -s -c 'import importlib.util as u; raise SystemExit(not u.find_spec("jupyterlab"))' || python=
fi
if [ ! -x "$python" ]; then echo "There is no JupyterLab here. Choose an image that brings it." >&2; exit 3; fi
mkdir -p "$HOME/{folder}" && cd "$HOME/{folder}" || exit 3
page=/lab
if ! grep -qs ipynb {tabs}/*; then
  [ -n "$(ls)" ] || echo '{empty}' >{first}
  [ ! -e {first} ] || page=/lab/tree/{first}
fi
JUPYTER_RUNTIME_DIR=$(mktemp -d /tmp/nb-XXXXXX) || exit 3
export JUPYTER_RUNTIME_DIR JUPYTER_TOKEN="$TESSERA_UPSTREAM_TOKEN"
"""
    + SCRIPT.replace("{", "{{").replace("}", "}}")
    + """
export PATH="${{VIRTUAL_ENV:+$VIRTUAL_ENV/bin:}}${{TESSERA_TOOLS:+$TESSERA_TOOLS/bin:}}$PATH"
trap 'rm -rf "$JUPYTER_RUNTIME_DIR"' EXIT
trap : TERM
"$python" -s -m jupyterlab --no-browser \
  --ServerApp.ip=127.0.0.1 --ServerApp.port="$TESSERA_PORT_{port}" --ServerApp.port_retries=0 \
  --ServerApp.base_url=/ --ServerApp.root_dir="$HOME/{folder}" --ServerApp.allow_remote_access=True \
  --ServerApp.allow_root=True --ServerApp.quit_button=False \
  --ServerApp.tornado_settings='{{"ws_ping_interval": 0}}' \
  --FileContentsManager.delete_to_trash=False --KernelManager.transport=ipc \
  --LabApp.default_url="$page" --LabApp.workspaces_dir="$HOME/{folder}/{tabs}" \
  --LabApp.extension_manager=readonly --LabApp.news_url=None \
  --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate --LanguageServerManager.autodetect=False
"""
).strip()


def build_spec(notebook: Notebook, *, hours: int | None, gpu: str | None, image: str = "") -> JobSpec:
    """Build the spec that a start submits. gpu: replaces the notebook's own. image: for a notebook without one."""
    kept = from_json(notebook.spec)
    return replace(
        kept,
        name=notebook.name,
        team=notebook.team.name,
        run=COMMAND.format(
            folder=notebook.folder, port=JUPYTER_PORT, first=FIRST, tabs=TABS, empty=json.dumps(EMPTY_PAGE)
        ),
        env={**kept.env, "NOTEBOOK_FOLDER": notebook.folder},  # its shells start there
        gpu=kept.gpu if gpu is None else parse_gpu(gpu),
        image=kept.image or (image if not kept.environment else "") or None,  # an environment brings its own
        time_s=None if hours is None else hours * 3600,
        max_time_s=None,
        preemptible=False,  # whatever its pool says of jobs: somebody works in it
        retry_times=0,
        ports=(JUPYTER_PORT,),
        labels={LABEL: notebook.public_id},
    )
