# Sourced by the other scripts, in the checkout's root: makes .venv from a lock whose every file is pinned by hash.
# `venv requirements.txt` or `venv requirements-dev.txt`. Does nothing when the lock's checksum is stamped already.

PYTHONPATH="$PWD:$PWD/platform"
export PYTHONPATH
# Some shells and images forbid compiled files. Five processes that compile Django at each start are not worth that.
unset PYTHONDONTWRITEBYTECODE

fail() {
  printf '%s\n  %s\n' "$1" "$2" >&2
  exit 1
}

venv() {
  lock=$1
  want=$(cksum <"$lock")
  [ "$(cat ".venv/.stamp-$lock" 2>/dev/null)" = "$want" ] && [ -x .venv/bin/python ] && return 0
  began=$(date +%s)
  mkdir -p .venv 2>/dev/null || fail "No write access in $PWD." "Clone into a directory of your own, or give this account write access."
  [ -w .venv ] || fail "No write access in $PWD/.venv." "Give this account write access, or remove .venv."
  exec 9>.venv/.installing # not .lock, which uv takes for itself: it would wait for five minutes
  if command -v flock >/dev/null 2>&1; then flock 9; fi
  if [ "$(cat ".venv/.stamp-$lock" 2>/dev/null)" != "$want" ] || [ ! -x .venv/bin/python ]; then
    check_space
    make_venv
    printf 'Installing packages of %s into .venv ... ' "$lock"
    install_lock "$lock"
    # Written last: an install that was cut leaves no stamp. The dev lock holds all of the others.
    if [ "$lock" = requirements-dev.txt ]; then
      for held in requirements.txt requirements-docs.txt; do cksum <"$held" >".venv/.stamp-$held"; done
    fi
    echo "$want" >".venv/.stamp-$lock"
    echo "$(($(date +%s) - began)) s"
  fi
  exec 9>&-
}

check_space() {
  free_kb=$(df -Pk . | awk 'NR == 2 { print $4 }')
  [ "$free_kb" -ge 1048576 ] || fail "Only $((free_kb / 1024)) MiB are free on the disk of $PWD; 1024 MiB are needed." "Free some space and run this again."
}

make_venv() {
  [ -x .venv/bin/python ] && .venv/bin/python -c '' 2>/dev/null && return 0
  python=${PYTHON:-python3}
  command -v "$python" >/dev/null 2>&1 || fail "There is no $python." "Install Python 3.11 or newer (Debian: apt install python3 python3-venv)."
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$("$python" -V) is too old." "Install Python 3.11 or newer, and name it: PYTHON=python3.11 $0"
  if command -v uv >/dev/null 2>&1; then
    uv venv -q --allow-existing --python "$python" .venv || fail "uv could not make .venv." "Its own words stand above."
  else
    "$python" -c 'import venv, ensurepip' 2>/dev/null || fail "This Python cannot make a virtual environment." "Install its venv module (Debian: apt install python3-venv) or uv."
    "$python" -m venv .venv || fail "$python could not make .venv." "Its own words stand above."
  fi
}

install_lock() {
  if command -v uv >/dev/null 2>&1; then
    uv pip install -q --python .venv/bin/python --no-deps --only-binary :all: --require-hashes -r "$1" 9>&- >.venv/install.log 2>&1 || install_failed
  else
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-input --no-compile --no-deps --only-binary :all: \
      --require-hashes -r "$1" 9>&- >.venv/install.log 2>&1 || install_failed
  fi
}

install_failed() {
  echo failed
  tail -n 4 .venv/install.log >&2
  if grep -qi 'no space left' .venv/install.log; then
    fail "The disk became full while packages were installed." "Free 1 GiB and run this again."
  elif grep -Eqi 'connection|resolv|timed out|unreachable|proxy|dns|network|from versions: none' .venv/install.log; then
    fail "The package index could not be reached; the first start needs it once." "Check the network, or the proxy and mirror in PIP_INDEX_URL; then run this again."
  fi
  fail "Packages could not be installed; all of pip's words: $PWD/.venv/install.log" "Run this again; if it stays so, remove .venv first."
}
