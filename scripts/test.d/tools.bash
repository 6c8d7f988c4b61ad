# Sourced by the checks beside it: finds or makes the tools that they need, in the cache.
# Sets `walferry`, `helm` and `python`. Its name does not end in .sh, so that scripts/test does not take it for a check.

cache=${WALFERRY_CACHE:-$HOME/.cache/walferry}
helm_version=v3.18.6
PATH=$PATH:/usr/local/go/bin:$HOME/.cargo/bin

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

# The binary of this tree, or $WALFERRY_BINARY.
set_up_walferry() {
    walferry=${WALFERRY_BINARY:-}
    if [ -z "$walferry" ]; then
        cargo build --quiet --locked --bin walferry >&2 || die "walferry could not be built"
        walferry=${CARGO_TARGET_DIR:-target}/debug/walferry
    fi
}

apt_install() { # apt_install PACKAGE WHY
    [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1 || die "$2; install it (Debian: $1)"
    say "installing $1"
    apt-get update -q >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$1" >&2
}

# helm comes from its Go module: some minutes of building, once.
set_up_helm() {
    helm=$cache/bin/helm-$helm_version
    [ -x "$helm" ] && return
    command -v go > /dev/null 2>&1 || apt_install golang-go "helm is built from its Go module, and Go is missing"
    # From 1.21 on Go fetches the toolchain that a module asks for.
    local minor build
    minor=$(go version | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p')
    [ "${minor:-0}" -ge 21 ] || die "this is $(go version); helm $helm_version needs Go 1.24 or later (1.21 fetches that itself)"
    say "building helm $helm_version (once; some minutes)"
    mkdir -p "$cache/bin"
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
    python3 -c 'import venv, ensurepip' 2> /dev/null || apt_install python3-venv "python3 has no venv"
    python3 -m venv "$cache/manifests-venv"
    "$cache/manifests-venv/bin/pip" install -q --disable-pip-version-check -r "$requirements" >&2
    touch "$stamp"
}
