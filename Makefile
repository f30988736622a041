# Tickwork. `make` alone lists what there is; everything below works from a bare checkout.
# Two stamps in .venv remember what was installed: a second run costs nothing, and a changed
# lock or pyproject.toml is installed before whatever comes next.

PYTHON ?= python3
PORT ?= 8080
VENV := .venv
BIN := $(VENV)/bin
RUN_READY := $(VENV)/.run-ready
DEV_READY := $(VENV)/.dev-ready
CONSOLE := src/tickwork/api/console_build/index.html
DOCS_READY := $(VENV)/.docs-ready

# -qq: errors only. One -q still lets through a warning for every place of an index that pip skips.
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check install -qq
# Neither settings nor extra indexes of this machine may find their way into a lock.
LOCK_ONLY := env -u UV_INDEX -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS $(BIN)/uv --no-config pip compile -q \
	--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	--custom-compile-command "make lock" $(LOCK_ARGS)
LOCK := $(LOCK_ONLY) --extra client --extra delivery --extra otel --extra server --extra postgres --extra top pyproject.toml

# Where no packages of npm can be had, everything but the console works, and its tests are left out.
BUILT_IF_POSSIBLE = @test -z "$(CONSOLE_IS_OLD)" || $(BIN)/python console/build.py --if-possible
# What changed since it was built: its sources, or what the API describes.
CONSOLE_IS_OLD = $(shell test -f $(CONSOLE) \
	&& find console/src console/*.* src/tickwork/api src/tickwork/core/answers -type f \
		-newer $(CONSOLE) -not -path "*/__pycache__/*" | head -1 || echo missing)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(DEV_READY) ## install everything, runtime and tools, into .venv

.PHONY: run
run: $(RUN_READY) ## start a whole node with a demo on 127.0.0.1:8080 (PORT=…) and the file tickwork.db
	$(BUILT_IF_POSSIBLE)
	$(BIN)/tickwork run examples.demo.app:app --roles api,scheduler,worker --port $(PORT)

.PHONY: console
console: $(RUN_READY) ## build the console (the web page at /) into the package
	$(BIN)/python console/build.py

# The tests of the console use the browser of the machine.
.PHONY: browser
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null \
		|| { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] \
			&& apt-get install -qq -y --no-install-recommends chromium >/dev/null; } \
		|| echo "Install Chromium for the tests of the console: sudo apt-get install chromium"

.PHONY: pictures
pictures: $(DEV_READY) $(CONSOLE) browser ## take the pictures of the console in the docs
	$(BIN)/python -m tests.console.pictures docs/pictures

$(CONSOLE): | $(RUN_READY)
	$(BIN)/python console/build.py

.PHONY: test
test: $(DEV_READY) browser ## run the tests, on every core; ONLY=queue,cli runs some areas
	$(BUILT_IF_POSSIBLE)
	$(BIN)/python -m tests $(if $(ONLY),--only $(ONLY))

.PHONY: check
check: $(DEV_READY) ## format, lint, types, layers and tests: what CI runs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python console/build.py --lint --if-possible
	$(MAKE) test

.PHONY: fmt
fmt: $(DEV_READY) ## format, and fix what can be fixed
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/python console/build.py --fmt --if-possible

.PHONY: bench
bench: $(DEV_READY) browser ## measure and write bench/results.json; ONLY=time measures one area
	$(BUILT_IF_POSSIBLE)
	$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY))

.PHONY: bench-peers
bench-peers: $(DEV_READY) browser ## install others in .venv-peers, and measure ours beside them
	$(BUILT_IF_POSSIBLE)
	$(BIN)/python -m bench.peers.install; $(BIN)/python -m bench --only worker,scheduler,delivery,durable,console

.PHONY: house
house: $(DEV_READY) ## print numbers of the tree: how often a noun is written
	$(BIN)/python -m bench.house

.PHONY: bench-large
bench-large: $(DEV_READY) ## measure with ten million schedules; takes an hour or more
	$(BIN)/python -m bench.large

.PHONY: docs
docs: $(DOCS_READY) ## build the documentation site in build/site
	$(BIN)/python -m docs.site.build

.PHONY: soak
soak: $(DEV_READY) browser ## run the long tests, and the randomised ones with all their examples
	$(BUILT_IF_POSSIBLE)
	TESTS_SOAK=1 $(BIN)/python -m pytest -m "soak or randomised" -s -o faulthandler_timeout=0

.PHONY: lock
lock: $(DEV_READY) ## lock anew what pyproject.toml asks for; LOCK_ARGS=--upgrade moves every pin
	$(LOCK) --group build -o requirements/run.txt
	$(LOCK) --group build --group dev -c requirements/run.txt -o requirements/dev.txt
	$(LOCK_ONLY) --group pyproject.toml:console -c requirements/dev.txt -o requirements/console.txt
	$(LOCK_ONLY) --group pyproject.toml:docs -c requirements/dev.txt -o requirements/docs.txt

.PHONY: clean
clean: ## remove .venv, caches and build output; databases stay
	rm -rf $(VENV) .venv-peers build dist bench/results.json
	rm -rf console/node_modules console/build src/tickwork/api/console_build
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

# pip is the last thing that venv puts in place: where it is, the environment is whole.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit( \
		"Tickwork needs Python 3.11 or newer; $(PYTHON) is %d.%d. Try: make PYTHON=python3.12" \
		% sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)

$(RUN_READY): requirements/run.txt pyproject.toml | $(BIN)/pip
	$(PIP_INSTALL) --require-hashes -r requirements/run.txt
	$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@# As pip does for what it installs, so that the first start is as quick as the next.
	$(BIN)/python -m compileall -q src
	@touch $@

$(DEV_READY): requirements/dev.txt $(RUN_READY)
	$(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

$(DOCS_READY): requirements/docs.txt $(RUN_READY)
	$(PIP_INSTALL) --require-hashes -r requirements/docs.txt
	@touch $@
