#!/bin/sh
# `rsh.sh worker-0 COMMAND`: run a command in another task of this job that runs listen.sh, as mpirun asks it to.
here=$(dirname "$0")
. "$here/key.sh"
# It may not be up yet, and then its name has no address. ssh itself tries again only what has one.
address=$(ssh -F "$here/ssh.conf" -G "$@" | sed -n 's/^hostname //p') tries=60
until ! command -v getent >/dev/null || getent ahosts "$address" >/dev/null || [ "$tries" = 0 ]; do
  sleep 1
  tries=$((tries - 1))
done
exec ssh -F "$here/ssh.conf" -i "$key" "$@"
