#!/usr/bin/env bash
# Builds etcd, kube-apiserver, kube-scheduler, kube-controller-manager and the kubelet into one folder, in the form
# that KUBEBUILDER_ASSETS names. Skips the work when this version is there already.
# Usage: build.sh FOLDER
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
assets=$(cd "$1" && pwd)
go=${GO:-go}
command -v "$go" >/dev/null || { echo "koord: building Kubernetes needs Go 1.26 or newer; none found (set GO=...)" >&2; exit 1; }
version=$(cd "$here" && "$go" list -m -f '{{.Version}}' k8s.io/kubernetes)
stamp="$version $(cat "$here"/{main.go,go.mod,go.sum} | sha256sum | cut -c1-16)"
[ "$(cat "$assets/.built" 2>/dev/null)" != "$stamp" ] || exit 0
echo "building Kubernetes $version; the first time takes about ten minutes on two cores" >&2
minor=${version#v1.}
(cd "$here" && CGO_ENABLED=0 nice -n 10 "$go" build -trimpath -o "$assets/cluster" -ldflags "-s -w \
    -X k8s.io/component-base/version.gitVersion=$version \
    -X k8s.io/component-base/version.gitMajor=1 \
    -X k8s.io/component-base/version.gitMinor=${minor%%.*}" .)
for program in etcd kube-apiserver kube-scheduler kube-controller-manager kubelet; do
    ln -sf cluster "$assets/$program"
done
echo "$stamp" > "$assets/.built"
