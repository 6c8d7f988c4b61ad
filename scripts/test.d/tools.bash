# Sourced by the checks beside it: finds or makes the tools that they need, in the cache.
# Sets `walferry`, `helm`, `helm_unittest`, `helm_docs`, `compose`, `promtool` and `python`. Its name does not end in .sh, so that
# scripts/test does not take it for a check.

cache=${WALFERRY_CACHE:-$HOME/.cache/walferry}
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

# go_tool NAME PACKAGE VERSION [OLD=NEW@VERSION]: builds a program of a Go module into the cache, once, and prints where it
# is. The last is a `replace` of the module's own, which counts only in a main module: so the build has one.
go_tool() {
    local program=$cache/bin/$1-$3 minor build
    if [ ! -x "$program" ]; then
        command -v go > /dev/null 2>&1 || apt_install golang-go "$1 is built from its Go module, and Go is missing"
        # From 1.21 on Go fetches the toolchain that a module asks for.
        minor=$(go version | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p')
        [ "${minor:-0}" -ge 21 ] || die "this is $(go version); $1 $3 needs Go 1.24 or later (1.21 fetches that itself)"
        say "building $1 $3 (once; some minutes)"
        mkdir -p "$cache/bin"
        build=$(mktemp -d "$cache/bin/.$1.XXXXXX")
        (
            cd "$build"
            go mod init tool
            [ $# -lt 4 ] || go mod edit -replace "$4"
            go get "$2@$3"
            go build -ldflags '-s -w' -o program "$2"
        ) > "$build/log" 2>&1 || { tail -n 20 "$build/log" >&2; rm -rf "$build"; die "$1 could not be built"; }
        mv "$build/program" "$program"
        rm -rf "$build"
    fi
    printf '%s\n' "$program"
}

set_up_helm() { helm=$(go_tool helm helm.sh/helm/v3/cmd/helm v3.18.6); }

# Its Helm is 3.19, whose schema errors read like those of 3.18.6.
set_up_helm_unittest() {
    helm_unittest=$(go_tool helm-unittest github.com/helm-unittest/helm-unittest/cmd/helm-unittest v1.0.3 \
        github.com/vmware-labs/yaml-jsonpath=github.com/helm-unittest/yaml-jsonpath@v0.4.0)
}

set_up_helm_docs() { helm_docs=$(go_tool helm-docs github.com/norwoodj/helm-docs/cmd/helm-docs v1.14.2); }

# The loader of Docker Compose itself.
set_up_compose() { compose=$(go_tool compose-go github.com/compose-spec/compose-go/v2/cmd v2.4.7); }

# promtool is taken out of Debian's package: installing that would start a Prometheus.
set_up_promtool() {
    promtool=$cache/bin/promtool
    [ -x "$promtool" ] && return
    if command -v promtool > /dev/null 2>&1; then
        promtool=$(command -v promtool)
        return
    fi
    command -v apt-get > /dev/null 2>&1 || die "promtool is missing; install it (Debian: prometheus)"
    say "fetching promtool"
    local work
    work=$(mktemp -d)
    mkdir -p "$cache/bin"
    # Whoever fetches as root needs no sandbox user for a folder of root's.
    if ! (cd "$work" && { [ "$(id -u)" != 0 ] || apt-get update -q >&2; } && apt-get -o APT::Sandbox::User=root download -q prometheus >&2 &&
        dpkg-deb -x prometheus_*.deb root && mv root/usr/bin/promtool "$promtool"); then
        rm -rf "$work"
        die "promtool could not be had from Debian's package prometheus"
    fi
    rm -rf "$work"
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
