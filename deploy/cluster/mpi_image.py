"""An image that brings Open MPI and OpenSSH, for jobs whose launcher starts its workers. Made only where it is asked
for (bin/cluster up --mpi, and the tests that need it), since it takes minutes and 76 MiB.
"""

import tarfile
from functools import partial
from pathlib import Path

from deploy.cluster.cache import make_once
from deploy.cluster.images import Image, layout_of, pack_debian, write_layout
from deploy.cluster.place import Place
from deploy.cluster.registry import name_of, push

PACKAGES = "python3,ca-certificates,openmpi-bin,python3-mpi4py,openssh-server"


def pack_mpi(place: Place, layer: tarfile.TarFile) -> None:
    pack_debian(layer, PACKAGES)


MPI = Image("mpi", "4.1", ["bash"], pack_mpi)


def put_mpi_image(place: Place) -> str:
    """Its name in the registry, which has it then. Raises Refusal where apt's mirror cannot be had."""
    push(MPI, make_mpi_image(place))
    return name_of(MPI)


def make_mpi_image(place: Place) -> Path:
    """Its layout in the cache. Raises Refusal."""
    layout = layout_of(place, MPI)
    make_once(layout, partial(write_layout, place, MPI))
    return layout
