# Sourced by a script that has its directory in `here`: sets up the servers of test-env and runs them for as long as the script lives.
# Sets `work`, their directory, and exports what tests want to know of them. Whatever way the script ends, no server stays behind.

work=$(mktemp -d "${TMPDIR:-/tmp}/wf.XXXXXX")
finish() {
    status=$?
    trap - EXIT INT TERM
    "$here/test-env" down "$work" || true
    if [ "$status" = 0 ]; then rm -rf "$work"; else echo "the servers' logs are in $work" >&2; fi
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$here/test-env" setup
"$here/test-env" up "$work"
# shellcheck disable=SC1091 # written by test-env
. "$work/env"
