# The set-up commands of the README; each works on a fresh machine that has Python 3.11 or newer.

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CORPUS ?= ../shared/ksqldb/query-validation-tests
PLANS ?= ../shared/ksqldb/historic-plans
PLAN_LEDGER := tests/conformance/known-gaps-plans.yaml
LEDGER := tests/conformance/known-gaps.yaml
SEEDS ?= 1 2 3
KILLS ?= 200
SEED ?= 1
N ?= 10000
KIND ?=
EVERY ?= 10
# Tests on a broker wait for much of their time: three workers keep two cores busy.
WORKERS ?= 3
JOB ?= count

# Tests start hundreds of processes: without byte code, each would compile the engine and its libraries anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help clients demo demo-kafka cluster image demo-server demo-takeover kafka test cases lint style types rooms workflows jars nightly fuzz kills cuts mistakes releases bench profile plans ledger docs dist lock clean

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## show one application, its cases and a difference, then run all cases of the project on a real Spark
	@$(BIN)/python -m tests.demo

demo-kafka: $(READY) ## run four chained queries on a Kafka broker started here, kill the run, start it again, show the outputs
	@$(BIN)/python -m tests.kafka.demo

cluster: $(READY) ## start a Spark cluster of four processes, S3 and a broker; run chained queries, kill a worker and the driver, count the outputs
	@$(BIN)/python -m tests.kafka.cluster

image: $(READY) ## build the image of docs/kubernetes with docker or buildah, try it as its own user, and measure it
	@$(BIN)/python -m tests.kubernetes.image

demo-server: $(READY) ## start a broker and a server, feed it, ask it a push and a pull query with curl
	@$(BIN)/python -m tests.engine.server.demo

demo-takeover: $(READY) ## start ksqlDB's own server on a broker, feed it, stop it, take its queries over with their state, compare the outputs
	@$(BIN)/python -m tests.kafka.demo_takeover

kafka: $(READY) ## run cases on a Kafka broker started here: those of several partitions, and a fifth of each file of ours and of ksqlDB's
	@$(BIN)/python -m tests.kafka.spread

test: $(READY) ## run linters, types, room order, then all cases and the tests of every change, on WORKERS=3
	@$(MAKE) --no-print-directory --jobs 4 --output-sync=target jars rooms clients style workflows
	@$(MAKE) --no-print-directory --jobs 2 types cases

# Tests against a broker wait for it; mypy works meanwhile.
cases: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS)

fast: $(READY) ## run the tests that need neither Spark nor a broker nor all plans, and start neither pytest nor pip: without a JVM
	$(BIN)/python -m pytest -n $(WORKERS) tests -m "not spark and not conformance and not nightly" --ignore tests/kafka \
		$(addprefix --ignore tests/,conformance/test_corpus.py conformance/test_plans.py qtt/test_plan_oracles.py qtt/test_pytest_plugin.py test_wheel.py)

lint: types rooms style workflows ## run ruff (rules and layout), mypy, import-linter and the linters of workflows only

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

rooms: $(READY)
	$(BIN)/lint-imports

ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

workflows: $(READY) ## lint .github; without Go, actionlint is left out
	@test -x $(BIN)/actionlint || GOBIN=$(abspath $(BIN)) go install $(ACTIONLINT) \
		|| echo "go did not build actionlint: the workflows are checked by zizmor only"
	@test ! -x $(BIN)/actionlint || $(BIN)/actionlint
	$(BIN)/zizmor --quiet --persona pedantic .github

jars: $(READY)
	@$(BIN)/python -m tests.ready

CLIENTS := tests/engine/server/clients

clients: ## fetch the client of ksqlDB for Node.js that tests of the server run; without npm they are skipped
	@test -d $(CLIENTS)/node_modules/ksqldb-js || npm ci --prefix $(CLIENTS) --silent --no-audit --no-fund \
		|| echo "npm did not fetch ksqldb-js: its test is skipped"

nightly: $(READY) ## run all that `make test` leaves out: fuzz, many kills, clusters, every case cut and restarted
	$(BIN)/python -m pytest -n 2 -m nightly || test $$? -eq 5
	$(MAKE) fuzz N=1000000 KIND=expressions
	$(MAKE) fuzz N=200000 KIND=codecs
	$(MAKE) fuzz N=20000 KIND="statements properties"
	$(MAKE) fuzz N=300 KIND=checkpoints
	$(MAKE) fuzz N=10000 KIND="oracle earlier"
	$(BIN)/python -m tests.kafka.takeover_runs --runs 1000 --seed $(SEED)
	$(MAKE) cuts

fuzz: $(READY) ## generate and mutate input: N=10000 tries of every KIND from SEED=1; KIND="expressions codecs" chooses
	$(BIN)/python -m tests.fuzz --seed $(SEED) --tries $(N) $(KIND)

kills: $(READY) ## kill a run against a broker KILLS=200 times, then its workers, its broker and a zombie; count what came out of five shapes of queries; then kill a server as often
	KESTREL_KILLS=$(KILLS) $(BIN)/python -m pytest -m nightly --log-cli-level=INFO \
		tests/kafka/test_run_kills.py tests/kafka/test_run_direct.py tests/kafka/test_serve_kills.py

cuts: $(READY) ## run every case whole, record by record, and cut at random with restarts; ksqlDB's cases, too, where they are
	for cut in "one" "each" $(SEEDS:%="random:% --restart"); do \
		$(BIN)/qtt run test-cases --cut $$cut || exit 1; \
		if test -d $(CORPUS); then $(BIN)/qtt run $(CORPUS) --tolerant-errors --known-gaps $(LEDGER) --cut $$cut || exit 1; fi; \
	done
	@test -d $(CORPUS) || echo "$(CORPUS) is absent: the cases of ksqlDB were not run"

mistakes: $(READY) ## make each mistake of tests/mistakes.yaml in a copy, and fail for one that its test does not notice
	$(BIN)/python -m tests.mistakes

releases: $(READY) ## run EVERY=10th case and stored plan, and tests over a broker, on each release of Spark, with each of PYTHONS
	EVERY=$(EVERY) $(if $(PYTHONS),PYTHONS="$(PYTHONS)") $(if $(INTO),INTO=$(INTO)) $(BIN)/python -m tests.releases

bench: $(READY) ## measure ms per case: hand-written, one by one, fused
	$(BIN)/python -m tests.bench

profile: $(READY) ## say where the time of JOB=count goes, Python and JVM together; the jobs are the shapes of `python -m tests.bench shapes`
	JOB=$(JOB) $(BIN)/python -m tests.bench profile

plans: $(READY) ## run every plan that ksqlDB stored, and write the ledger of those that do not match
	$(BIN)/qtt plans run $(PLANS) --group-size 80 --json build/plans.json || test $$? -eq 1
	$(BIN)/python tests/conformance/ledger.py build/plans.json $(PLAN_LEDGER)

ledger: $(READY) ## run ksqlDB's cases and write the ledger of those that do not pass
	$(BIN)/qtt run $(CORPUS) --tolerant-errors --json build/conformance.json || test $$? -eq 1
	$(BIN)/python tests/conformance/ledger.py build/conformance.json $(LEDGER)

docs: $(READY) ## build the site of the documents into build/site, and fail at a broken link
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file .mkdocs.yml
	@echo "the site is in build/site; $(BIN)/mkdocs serve --config-file .mkdocs.yml shows it"

dist: $(READY) ## build wheel and sdist of the last commit into dist, the same bytes everywhere, and check them
	$(BIN)/python -m tests.distribution

lock: ## write constraints.txt anew from the newest versions that pyproject.toml allows
	rm -rf build/lock && $(PYTHON) -m venv build/lock && build/lock/bin/pip install --quiet -e '.[dev]'
	{ echo "# The versions that every test run uses; \`make lock\` writes this file anew from the ranges of pyproject.toml."; \
	  build/lock/bin/pip freeze --all --exclude pip --exclude-editable; } > constraints.txt

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# uv takes a fifth of pip's time; where it cannot be had, or does not reach the registry as pip does, pip installs all.
# PySpark has no wheel: pip keeps the one that it builds, uv builds another wherever the registry calls the sources new.
# Without --no-compile pip would compile all modules; Python compiles those that the tests import by itself.
PIP = $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with the module venv is needed (python3 -m venv)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) -c constraints.txt pyspark
	{ $(PIP) -c constraints.txt uv && $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[dev]'; } \
		|| $(PIP) -c constraints.txt -e '.[dev]'
	@touch $(READY)
