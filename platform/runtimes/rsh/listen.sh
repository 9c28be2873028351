#!/bin/sh
# What a worker runs that others start programs in: lets the tasks of the same person in by ssh, until it is stopped.
# What they start has the environment, the directory and the limits of this task.
set -eu
here=$(dirname "$0")
if [ -z "${TESSERA_PORT_2222:-}" ]; then
  echo 'listen.sh: say `ports: [2222]` in the role that runs it.' >&2
  exit 2
fi
sshd=$(PATH="$PATH:/usr/sbin:/sbin" command -v sshd) || {
  echo 'listen.sh: there is no sshd here. Use an image, or ask for a machine, that has OpenSSH.' >&2
  exit 2
}
. "$here/key.sh"
umask 077
ssh-keygen -y -f "$key" >"$TMPDIR/allowed"
ssh-keygen -q -t ed25519 -N '' -f "$TMPDIR/host_key"
{
  export -p
  echo "cd '$PWD'"
  echo 'exec /bin/sh -c "${SSH_ORIGINAL_COMMAND:-exec $SHELL}"'
} >"$TMPDIR/enter"
exec "$sshd" -D -e -f /dev/null -p "$TESSERA_PORT_2222" -h "$TMPDIR/host_key" -o PidFile=none -o UsePAM=no \
  -o StrictModes=no -o "AuthorizedKeysFile=$TMPDIR/allowed" -o "AllowUsers=$USER" -o PasswordAuthentication=no \
  -o KbdInteractiveAuthentication=no -o AllowTcpForwarding=no -o X11Forwarding=no -o LogLevel=ERROR \
  -o "ForceCommand=/bin/sh '$TMPDIR/enter'"
