#!/bin/sh
# The loop as a person drives it with kubectl. $EXAMPLES: the directory of manifests, $NODE: the node's name.
set -eu

batch_cpu() {
    kubectl get node "$NODE" -o 'jsonpath={.status.allocatable.kubernetes\.io/batch-cpu}'
}

# within SECONDS COMMAND...: until it is true
within() {
    deadline=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt "$deadline" ] || { echo "not in time: $*" >&2; kubectl get pods -A >&2; exit 1; }
        sleep 0.3
    done
}

offers_at_least() { [ "$(batch_cpu || echo 0)" -ge "$1" ] 2>/dev/null; }
offers_at_most() { [ "$(batch_cpu || echo 999999)" -le "$1" ] 2>/dev/null; }

kubectl apply -f "$EXAMPLES/slo-controller-config.yaml" -f "$EXAMPLES/profile.yaml"
kubectl create namespace batch
kubectl label namespace batch koordinator.sh/enable-colocation=true
kubectl create namespace shop

within 60 offers_at_least 600
idle=$(batch_cpu)
echo "the idle node offers batch-cpu $idle"

kubectl apply -f "$EXAMPLES/crunch.yaml"
kubectl rollout status deployment/crunch -n batch --timeout=60s
pod=$(kubectl get pods -n batch -l app=crunch -o 'jsonpath={.items[0].metadata.name}')
kubectl get pod "$pod" -n batch -o yaml > "$OUT/pod.yaml"
kubectl describe node "$NODE" > "$OUT/node.txt"

kubectl apply -f "$EXAMPLES/web.yaml"
kubectl wait pod/web -n shop --for=condition=Ready --timeout=60s
within 60 offers_at_most $((idle - 500))
echo "with a busy service it offers batch-cpu $(batch_cpu)"

kubectl delete pod web -n shop
within 60 offers_at_least $((idle - 300))
echo "idle again it offers batch-cpu $(batch_cpu)"
