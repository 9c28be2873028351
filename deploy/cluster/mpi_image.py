"""An Open MPI and OpenSSH image for jobs with a launcher, made on request (up --mpi): minutes, 76 MiB."""

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
    """Push the image; return its name. Raise Refusal without apt's mirror."""
    push(MPI, make_mpi_image(place))
    return name_of(MPI)


def make_mpi_image(place: Place) -> Path:
    """Return its cached layout. Raise Refusal."""
    layout = layout_of(place, MPI)
    make_once(layout, partial(write_layout, place, MPI))
    return layout
