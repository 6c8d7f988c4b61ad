# Sourced by the checks beside it: finds or makes the tools that they need, in the cache.
# Sets `helm` and `python`. Not executable, so that scripts/test does not take it for a check.

cache=${WALFERRY_CACHE:-$HOME/.cache/walferry}
helm_version=v3.18.6
PATH=$PATH:/usr/local/go/bin:$HOME/.cargo/bin

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

# helm comes from its Go module: four minutes of building, once.
set_up_helm() {
    helm=$cache/bin/helm-$helm_version
    [ -x "$helm" ] && return
    if ! command -v go > /dev/null 2>&1; then
        if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1; then
            say "installing golang-go"
            apt-get update -q >&2
            DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends golang-go >&2
        else
            die "helm is built from its Go module, and Go is missing; install Go 1.24 or later (Debian: golang-go)"
        fi
    fi
    say "building helm $helm_version (once; some minutes)"
    mkdir -p "$cache/bin"
    local build
    build=$(mktemp -d "$cache/bin/.helm.XXXXXX")
    GOBIN=$build go install -ldflags '-s -w' "helm.sh/helm/v3/cmd/helm@$helm_version" >&2 || { rm -rf "$build"; die "helm could not be built"; }
    mv "$build/helm" "$helm"
    rm -rf "$build"
}

# A virtual environment with what requirements.txt beside this file names.
set_up_python() {
    local requirements stamp
    requirements=$(dirname "${BASH_SOURCE[0]}")/requirements.txt
    stamp=$cache/manifests-venv/.$(sha256sum "$requirements" | cut -c1-16)
    python=$cache/manifests-venv/bin/python
    [ -e "$stamp" ] && return
    say "setting up Python packages for the checks of manifests"
    rm -rf "$cache/manifests-venv"
    python3 -m venv "$cache/manifests-venv" || die "python3 has no venv; install python3-venv"
    "$cache/manifests-venv/bin/pip" install -q --disable-pip-version-check -r "$requirements" >&2
    touch "$stamp"
}
