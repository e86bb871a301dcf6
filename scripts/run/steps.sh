# The steps of .ci/run and scripts/nightly, which source this file. A failed step does not stop the others.

export CI=true
# The folder of Go's installer, which may be missing from PATH.
command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# The commands that npm ci installs, Node.js among them.
PATH=$PWD/node_modules/.bin:$PATH

passed=0
failed=0
skipped=0
failures=()
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# step NAME COMMAND...: run a step, print its output and duration, and count its result.
# A command that cannot run on this machine prints the reason and exits with 75 (EX_TEMPFAIL in sysexits.h), which counts as skipped.
skipped_code=75
step() {
  printf '\n=== %s\n' "$1"
  run "$@"
  report "$1"
}

# start NAME COMMAND...: run a step beside the ones after it, until finish NAME reports it. Only for steps that do not mind a busy
# machine, or that mostly wait for the network.
declare -A pids=()
start() {
  run "$@" &
  pids[$1]=$!
}
finish() {
  printf '\n=== %s\n' "$1"
  wait "${pids[$1]}"
  report "$1"
}

# The output goes to a file and is printed afterwards: a pipe would stay open until the last process that the step left running has
# exited.
run() {
  local log=$logs/$1 started=$SECONDS
  shift
  "$@" </dev/null >"$log" 2>&1
  printf '%d %d\n' $? $((SECONDS - started)) >"$log.result"
}

report() {
  local name=$1 code duration
  read -r code duration <"$logs/$name.result"
  cat "$logs/$name"
  if [ "$code" -eq 0 ]; then
    passed=$((passed + 1))
    printf -- '--- %s: passed (%d s)\n' "$name" "$duration"
  elif [ "$code" -eq "$skipped_code" ]; then
    skipped=$((skipped + 1))
    printf -- '--- %s: skipped (%d s)\n' "$name" "$duration"
  else
    failed=$((failed + 1))
    failures+=("$name")
    printf -- '--- %s: FAILED with %d (%d s)\n' "$name" "$code" "$duration"
  fi
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Debian installs initdb and postgres in a folder per version, outside of PATH.
have_postgres() {
  local dir
  for dir in ${PATH//:/ } /usr/lib/postgresql/*/bin; do
    [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ] && return 0
  done
  return 1
}
have_redis() { command -v redis-server >/dev/null; }
have_chromium() { command -v chromium >/dev/null; }
have_libical() { [ -e /usr/include/libical/ical.h ] && command -v cc >/dev/null; }

# install_packages: install the Debian packages of `packages`, an array by the name of their check, whose check fails. All checks must
# succeed afterwards.
install_packages() {
  local check missing=() code=0
  for check in "${!packages[@]}"; do
    # Unquoted: several packages.
    "$check" || missing+=(${packages[$check]})
  done
  if [ ${#missing[@]} -eq 0 ]; then
    echo 'All are installed'
    return 0
  fi
  echo "Installing ${missing[*]}"
  # A fresh image has no package lists, so they are fetched first.
  as_root apt-get -qq update &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends "${missing[@]}" >/dev/null || return 1
  for check in "${!packages[@]}"; do
    "$check" && continue
    echo "$check fails"
    code=1
  done
  return $code
}

clean_tree() {
  local changes
  changes=$(git status --porcelain) || return 1
  [ -z "$changes" ] && return 0
  printf 'The steps above changed or created files:\n%s\n' "$changes"
  return 1
}

# Prints the result. Repeats failures, because readers look at the end first, and truncated logs are complete there.
summary() {
  local name
  for name in "${failures[@]}"; do
    printf '\n=== %s: FAILED, last lines of output\n' "$name"
    tail -n 100 "$logs/$name"
  done
  printf '\n'
  if [ "$failed" -gt 0 ]; then
    printf 'Failed: %s\n' "${failures[@]}"
  fi
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" -eq 0 ]
}
