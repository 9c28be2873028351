# One image for every process of the platform: web, worker, beat and commands.
FROM python:3.11-bookworm AS slice
COPY agent/slice /src
RUN make -C /src BUILD=/built all hook \
 && install -D -t /out /built/libcuda.so.1 /built/libnvidia-ml.so.1 /built/slicectl /built/slicehook /built/trial

FROM python:3.11-slim-bookworm

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/srv/tessera:/srv/tessera/platform \
    DJANGO_SETTINGS_MODULE=config.settings TESSERA_STATIC_BUILT=1 TESSERA_DATA=/var/lib/tessera \
    TESSERA_SLICE=/usr/local/lib/tessera/slice

RUN useradd --system --uid 990 --home-dir /var/lib/tessera --create-home tessera
RUN apt-get update && apt-get install -y --no-install-recommends openssh-sftp-server rsync && rm -rf /var/lib/apt/lists/*
WORKDIR /srv/tessera

COPY --from=slice /out /usr/local/lib/tessera/slice
COPY requirements.txt .
RUN pip install --no-cache-dir --no-deps --only-binary :all: --require-hashes -r requirements.txt

COPY manage.py pyproject.toml ./
COPY agent agent
COPY platform platform
COPY portal portal
COPY scheduler scheduler
COPY templates templates
COPY static static
COPY locale locale
RUN python manage.py collectstatic --no-input --verbosity 0

USER tessera
VOLUME /var/lib/tessera
EXPOSE 8470 8471
CMD ["python", "-m", "uvicorn", "config.asgi:application", "--host", "0.0.0.0", "--port", "8470", "--no-access-log", "--no-server-header", "--timeout-graceful-shutdown", "10", "--ws-per-message-deflate", "false", "--ws-max-size", "67108864"]
