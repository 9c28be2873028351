#!/bin/sh
# `rsh.sh worker-0 COMMAND`: run a command in another task of this job that runs listen.sh, as mpirun asks it to.
here=$(dirname "$0")
. "$here/key.sh"
exec ssh -F "$here/ssh.conf" -i "$key" "$@"
