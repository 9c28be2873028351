"""The Python environment that a notebook keeps in its owner's home, with what `pip install` brought."""

from jobs.models import Job, JobKind
from runtimes.contract.task import Mount
from runtimes.python_environment import FOLDER
from runtimes.storage.areas import AreaId

HOME_FOLDER = ".tessera-environments"
LABEL = "notebook"
"""The label of a start with the notebook's id."""

# Sourced by the command of a start once $python is the base's, which runs JupyterLab. The kernel is the environment's
# Python, and finds ipykernel where JupyterLab is; an environment of another Python than that leaves the usual kernel.
SCRIPT = """
if [ -n "$VIRTUAL_ENV" ]; then
  if [ -w "$VIRTUAL_ENV" ] && ! "$VIRTUAL_ENV/bin/python" -c '' 2>/dev/null; then
    "$python" -m venv --copies --system-site-packages "$VIRTUAL_ENV" >/dev/null ||
      "$python" -m venv --copies --system-site-packages --without-pip "$VIRTUAL_ENV"
  fi
  site=$("$python" -s -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  if "$VIRTUAL_ENV/bin/python" -c "import site; site.addsitedir('$site'); import ipykernel, zmq"; then
    run="import site; site.addsitedir('$site'); from ipykernel import kernelapp; kernelapp.launch_new_instance()"
    mkdir -p "$JUPYTER_RUNTIME_DIR/data/kernels/python3"
    printf '{"argv": ["%s", "-c", "%s", "-f", "{connection_file}"], "display_name": "%s", "language": "python"}' \\
      "$VIRTUAL_ENV/bin/python" "$run" "Python 3 (ipykernel)" >"$JUPYTER_RUNTIME_DIR/data/kernels/python3/kernel.json"
    export JUPYTER_PATH="$JUPYTER_RUNTIME_DIR/data${JUPYTER_PATH:+:$JUPYTER_PATH}"
  else
    echo "Notebooks do not run in $VIRTUAL_ENV: it is of another Python than JupyterLab. Terminals do." >&2
  fi
fi
""".strip()


def find_kept_folder(notebook_id: str) -> str:
    """Return where a notebook keeps its environment, in its owner's home. notebook_id: such as nb-5."""
    return f"{HOME_FOLDER}/{notebook_id}"


def build_kept_mount(job: Job) -> Mount | None:
    """Return what a notebook's start keeps, None for other jobs."""
    if job.kind != JobKind.INTERACTIVE or LABEL not in job.labels:
        return None
    return Mount(AreaId("home", job.user.uid), find_kept_folder(job.labels[LABEL]), FOLDER, read_only=False)
