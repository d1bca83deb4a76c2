# Every target works from a bare clone: what it needs is made first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install demo test kubernetes test-kubernetes test-node lint types layers check lock clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "koord: $(PYTHON) is older than Python 3.11; name a newer one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
		{ echo "koord: $(PYTHON) cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

install: $(STAMP) ## Make the virtual environment .venv from the lock

demo: $(STAMP) ## Run colocation on this machine: alone, plain Kubernetes, Koord; write koord-demo.html
	$(BIN)/koordctl demo $(DEMO_ARGS)

test: $(STAMP) ## Run all tests (what needs root or writable cgroups is skipped aloud without them)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

kubernetes: ## Build a real control plane for the tests into .kubernetes/bin (needs Go; minutes the first time)
	tests/kubernetes/cluster/build.sh .kubernetes/bin

REAL := tests/contract tests/kubernetes tests/sandbox/admission/test_against_kubernetes.py \
	tests/sandbox/controllers/test_against_kubernetes.py

test-kubernetes: $(STAMP) ## Run the contract and Koord against a real control plane ($$KUBEBUILDER_ASSETS, else built)
	@[ -n "$$KUBEBUILDER_ASSETS" ] || $(MAKE) --no-print-directory kubernetes
	@assets=$${KUBEBUILDER_ASSETS:-$(CURDIR)/.kubernetes/bin}; [ -x "$$assets/kube-apiserver" ] || \
		{ echo "koord: there is no kube-apiserver in $$assets" >&2; exit 1; }
	KUBEBUILDER_ASSETS=$${KUBEBUILDER_ASSETS:-$(CURDIR)/.kubernetes/bin} $(BIN)/python -m pytest $(REAL) $(PYTEST_ARGS)

test-node: $(STAMP) ## Make this machine a node of a real control plane and test Koord on it (root, cgroup v1; 2 minutes)
	@[ -n "$$KUBEBUILDER_ASSETS" ] || $(MAKE) --no-print-directory kubernetes || true
	@$(BIN)/python -m tests.node.packages
	KOORD_TEST_NODE=1 $(BIN)/python -m pytest tests/node $(PYTEST_ARGS)

lint: $(STAMP) ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Check types
	$(BIN)/mypy

layers: $(STAMP) ## Check who imports whom
	$(BIN)/lint-imports

check: lint types layers ## Everything that needs no test run

lock: $(STAMP) ## Renew the locks from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --extra descheduler --upgrade --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-annotate --no-header -q -o requirements.lock
	uv pip compile pyproject.toml --extra descheduler --group dev --upgrade --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-annotate --no-header -q -o requirements-dev.lock

clean: ## Remove what the targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info koord-demo.html
