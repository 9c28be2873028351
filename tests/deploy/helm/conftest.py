import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from dev.cluster.build import PIECES, folder_of
from tests.local_cluster import ROOT, local_place, run_cluster

CHART = ROOT / "deploy/helm/tessera"


class Helm:
    """helm on the chart of this tree. `values` go to it as a file, as an administrator gives them.

    kubeconfig: of the cluster that it works on; rendering needs none.
    """

    def __init__(self, program: str, folder: Path, kubeconfig: Path | None = None):
        self.program, self.folder, self.kubeconfig = program, folder, kubeconfig

    def run(self, *arguments: str, values: dict | None = None, within_s: int = 60) -> subprocess.CompletedProcess:
        if values is not None:
            file = self.folder / "values.yaml"
            file.write_text(yaml.safe_dump(values))
            arguments = (*arguments, "--values", str(file))
        environment = os.environ | {"KUBECONFIG": str(self.kubeconfig or os.devnull)}
        command = [self.program, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=within_s)

    def __call__(self, *arguments: str, values: dict | None = None, within_s: int = 60) -> str:
        done = self.run(*arguments, values=values, within_s=within_s)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def helm(tmp_path_factory) -> Helm:
    """The machine's own helm, else bin/cluster's."""
    program = shutil.which("helm")
    if not program:
        run_cluster("build")
        piece = next(piece for piece in PIECES if piece.name == "helm")
        program = str(folder_of(local_place(), piece) / "helm")
    return Helm(program, tmp_path_factory.mktemp("helm"))
