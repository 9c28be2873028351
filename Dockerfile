# One image for every process of the platform, and for the agent of a machine. bin/image builds it, with or without Docker.
#   docker build -t tessera .                              on any Debian 12 or newer: --build-arg BASE=...
#   docker build -t tessera --build-arg PIP_INDEX_URL=...  where Python's packages come from a mirror
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS slice
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make
COPY agent/slice /src
RUN make -C /src BUILD=/built all hook \
 && install -D -t /out /built/libcuda.so.1 /built/libnvidia-ml.so.1 /built/slicectl /built/slicehook /built/trial

FROM ${BASE} AS packages
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_CERT
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3-venv
COPY requirements.txt /src/requirements.txt
COPY agent/requirements.txt /src/agent.txt
RUN python3 -m venv /opt/tessera && /opt/tessera/bin/pip install --no-cache-dir --no-deps --only-binary :all: --require-hashes \
    -r /src/requirements.txt -r /src/agent.txt

FROM ${BASE} AS docs
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_CERT
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3-venv
COPY requirements-docs.txt /src/requirements-docs.txt
RUN python3 -m venv /opt/docs && /opt/docs/bin/pip install --no-cache-dir --no-deps --only-binary :all: --require-hashes \
    -r /src/requirements-docs.txt
WORKDIR /src
COPY mkdocs.yml ./
COPY static/img static/img
COPY locale locale
COPY dev/docs dev/docs
COPY docs docs
RUN /opt/docs/bin/python -m dev.docs.build

FROM ${BASE}

ENV PATH=/opt/tessera/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/srv/tessera:/srv/tessera/platform \
    DJANGO_SETTINGS_MODULE=config.settings TESSERA_STATIC_BUILT=1 TESSERA_DATA=/var/lib/tessera \
    TESSERA_SLICE=/usr/local/lib/tessera/slice

# python3-venv is for the environment of notebooks, which notebooks.build_environment makes where jobs run in this very image.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates openssh-sftp-server python3-venv rsync \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 990 tessera \
    && useradd --system --uid 990 --gid 990 --home-dir /var/lib/tessera --create-home tessera
WORKDIR /srv/tessera

COPY --from=slice /out /usr/local/lib/tessera/slice
COPY --from=packages /opt/tessera /opt/tessera
COPY --from=docs /src/.site .site

COPY manage.py pyproject.toml ./
COPY agent agent
COPY deploy/kubernetes deploy/kubernetes
COPY platform platform
COPY portal portal
COPY scheduler scheduler
COPY templates templates
COPY static static
COPY locale locale
RUN python manage.py collectstatic --no-input --verbosity 0

USER 990:990
VOLUME /var/lib/tessera
EXPOSE 8470 8471
CMD ["python", "-m", "uvicorn", "config.asgi:application", "--host", "0.0.0.0", "--port", "8470", "--http", "config.http_protocol:BoundedHttp", "--no-access-log", "--no-server-header", "--timeout-graceful-shutdown", "10", "--ws-per-message-deflate", "false", "--ws-max-size", "67108864"]
