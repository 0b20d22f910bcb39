# `make help` explains itself. A new machine needs Python 3.10+, a JDK 17 and Maven.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help build demo compare linkage unit unit-java unit-python test prefetch test-oldest coverage pinned pins release first-hour first-pipeline fuzz model simulate requests mutations prove matrix corpus upgrades chaos handover migration registration costs \
	start-time many-queries large growth bench bench-near bench-far soak real-time-soak damaged-checkpoints check static-analysis clean docs site surface

PYTHON ?= python3
BIN := .venv/bin
VENV := .venv/.installed
RESULTS := reports/bench
BENCH := $(BIN)/eoskafka bench
# The oldest kafka-python that pyproject.toml allows, and the tests of the Python code that contacts brokers.
OLDEST := 3.0.0
ASKING := audit_reader doctor local_cluster offsets transactions upgrade verify
# Every package of the development environment, with its version and digests.
PINS := release/requirements.txt
FEW := --peers built-in
# Spark's faster class for writing the logs of a checkpoint on a local disk (docs/sizing.md).
STREAMING := org.apache.spark.sql.execution.streaming
MANAGER := $(STREAMING).checkpointing.FileSystemBasedCheckpointFileManager
QUICK_LOGS := spark.sql.streaming.checkpointFileManagerClass=$(MANAGER)
# Of `make bench-far`: round trips to the brokers in milliseconds.
ROUND_TRIPS := 1 5 20
FAR := --brokers 3 --round-trip-ms
INTO := --format json > /dev/null --output $(RESULTS)
# Of `make simulate`; SEED=N replays the schedule of one seed instead.
SCHEDULES := 1000000
MVN := mvn -B --no-transfer-progress -Dstyle.color=never -f jvm-shim/pom.xml

# Spark's Python workers must see the packages of the virtual environment.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(VENV) ## create the virtual environment and, if it is missing or stale, build the connector's jar
	$(BIN)/python -c "from eoskafka._jar import main; main()"

demo: build ## show on a local cluster that a crash causes no duplicates
	$(BIN)/eoskafka demo

compare: build ## run the demo with both connectors side by side, and store its figures and its chart
	mkdir -p build
	$(BIN)/eoskafka demo --compare --seed 7 --records 200000 --format json \
		--plot reports/demo-compare.png > build/demo-compare.json
	mv build/demo-compare.json reports/demo-compare.json

unit: build ## run the tests that need no broker, in both languages (about a minute)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target unit-java unit-python

unit-java:
	@# Tests are short, so the JVM's second compiler costs more time than it saves.
	JAVA_TOOL_OPTIONS=-XX:TieredStopAtLevel=1 $(MVN) -q -pl connector test -Deoskafka.schedules=100

unit-python:
	@# A third of the inputs and schedules that `make test` tries.
	EOSKAFKA_TRIES=100 $(BIN)/pytest -q -n 2 tests/unit

test: build ## run the JVM unit tests, the unit and integration tests, and a short fault-injection campaign
	mkdir -p build
	@# While the JVM tests run, prefetch files that both pytest processes would otherwise fetch at once.
	$(MAKE) --silent prefetch > build/prefetch.log 2>&1 & prefetch=$$!; \
		$(MVN) -pl connector test && { wait $$prefetch || { cat build/prefetch.log; exit 1; }; }
	@# The longest files first, or one process would wait for the other at the end.
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=60 -m "not slow" \
		--junitxml=build/tests.xml tests/faults tests/integration tests/tools tests/unit

prefetch:
	$(BIN)/python -c "from eoskafka.cluster.jars import kafka_jars; kafka_jars()"
	$(BIN)/python -c "from eoskafka.bench.peers import peer_jars; peer_jars()"
	PYTHONPATH=tests/integration $(BIN)/python -c "from harness.schemas import avro_jar; avro_jar()"
	PYTHONPATH=tests/integration $(BIN)/python -c "from harness import archive; \
		archive.archive_options(), archive.broker_archive_options()"

test-oldest: build ## run the commands' tests with the oldest supported kafka-python
	$(BIN)/pip install --quiet --no-deps --target build/kafka-python-$(OLDEST) --upgrade \
		kafka-python==$(OLDEST)
	PYTHONPATH=$(CURDIR)/build/kafka-python-$(OLDEST) $(BIN)/pytest -m "not slow" tests/unit \
		$(addprefix tests/integration/test_,$(addsuffix .py,$(ASKING)))

bench: bench-near bench-far ## run every benchmark (six hours), and update the tables and plots

bench-near: build ## run the benchmarks with one broker on the same machine (four hours)
	mkdir -p $(RESULTS)
	$(BENCH) throughput $(INTO)/throughput.json
	$(BENCH) throughput $(FEW) --records 1000000 --record-bytes 1024 $(INTO)/throughput-1k.json
	$(BENCH) throughput $(FEW) --records 200000 --record-bytes 10240 $(INTO)/throughput-10k.json
	$(BENCH) throughput $(FEW) --records 3000 --record-bytes 1000000 $(INTO)/throughput-1m.json
	$(BENCH) throughput $(FEW) --records 2000000 --plan pandas $(INTO)/throughput-pandas.json
	$(BENCH) latency $(INTO)/latency.json
	$(BENCH) latency --rate 20000 --seconds 20 $(INTO)/latency-20k.json
	$(BENCH) latency --partitions 2 --seconds 20 $(INTO)/latency-2p.json
	$(BENCH) latency $(FEW) --seconds 20 --warm-up 10 --spark-conf $(QUICK_LOGS) \
		$(INTO)/latency-quick-logs.json
	$(BENCH) interval --seconds 20 --warm-up 5 $(INTO)/interval.json
	$(BENCH) scale $(INTO)/scale.json
	$(BENCH) epoch $(INTO)/epoch.json
	$(BIN)/python docs/make.py

bench-far: build ## run the benchmarks with three brokers and round trips of 1, 5 and 20 ms (two hours)
	mkdir -p $(RESULTS)
	set -e; for ms in $(ROUND_TRIPS); do \
		$(BENCH) throughput $(FAR) $$ms --peers built-in,streams,flink --records 2000000 \
			--rounds 3 $(INTO)/throughput-far-$$ms.json; \
		$(BENCH) latency $(FAR) $$ms --seconds 20 --warm-up 10 --rounds 2 \
			$(INTO)/latency-far-$$ms.json; \
		$(BENCH) epoch $(FAR) $$ms --rounds 3 $(INTO)/epoch-far-$$ms.json; \
	done
	$(BIN)/python docs/make.py

fuzz: build ## fuzz the readers of external input: a million inputs for each reader in Java, a hundred thousand in Python (half an hour)
	mkdir -p build
	$(MVN) -pl connector test -Dgroups=reader -Deoskafka.tries=1000000 \
		-Deoskafka.corpus=$(CURDIR)/build/fuzz-corpus.jsonl
	PYTHONPATH=tests $(BIN)/python -m fuzz --corpus build/fuzz-corpus.jsonl

coverage: $(VENV) ## report which lines and branches of the Python package the unit tests cover
	$(BIN)/pytest -q tests/unit --cov --cov-report=term

model: $(VENV) ## check the protocol models (needs spin and a C compiler)
	$(BIN)/python tests/model/run.py

simulate: ## run a million fault schedules against the driver side of epoch scope (SCHEDULES=N, SEED=N)
	$(MVN) -q -pl connector test -Dtest=EpochSimulationTest -Deoskafka.schedules=$(SCHEDULES) \
		$(if $(SEED),-Deoskafka.seed=$(SEED))

requests: build ## list the requests that each kind of query sends, based on a broker's log, and write the report
	PYTHONPATH=tests:tests/integration $(BIN)/python -m requestlog

mutations: build ## remove each rule in turn, and check that its test then fails (resumable)
	$(BIN)/python tests/mutations/run.py --resume $(addprefix --passed ,$(wildcard build/tests.xml))

prove: build ## run everything that the guarantees rely on and CI skips, and write reports/proof.md (a day, resumable)
	PYTHONPATH=tests:tests/integration $(BIN)/python -m prove $(if $(MINUTES),--minutes $(MINUTES))

matrix: build ## run the crash tests on each Spark version, and update docs/compatibility.md (two hours, resumable)
	PYTHONPATH=tests:tests/integration $(BIN)/python -m matrix.run
	$(BIN)/python docs/make.py

corpus: build ## compare starts after a crash with an earlier version of the connector and with this one (resumable)
	$(BIN)/python tests/corpus/run.py

upgrades: build ## test that a killed query continues on another Spark version, and write the report (resumable)
	$(BIN)/python tests/corpus/upgrades.py

chaos: build ## inject faults for half an hour (MINUTES=N changes this), and write the report on all runs so far
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.chaos $(if $(MINUTES),--minutes $(MINUTES))

handover: build ## let a new version take over from the running one, and write the report
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.handover

migration: build ## migrate from the built-in connector and back under load, and write the report
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.migration

damaged-checkpoints: build ## test starts with damaged checkpoint files, compared with the built-in connector (resumable)
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.damaged_checkpoints

registration: build ## count the requests per transaction with and without registerTopics, and write the report
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.registration

costs: build ## measure what a batch costs the brokers, for `eoskafka size` (five minutes)
	PYTHONPATH=tests:tests/integration $(BIN)/python -m costs

start-time: build ## measure the start of a query whose checkpoint lists many writes, and write the report
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.start_time

many-queries: build ## measure what many queries in one driver cost, compared with the built-in connector, and write the report
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.many_queries

large: build ## measure a backlog of 100 million records and a state with a million keys, and write the report (half an hour, 30 GB of disk)
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.large

growth: build ## measure what a query costs as partitions, slots, writers, queries and epochs grow, and write the report (half an hour)
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.growth

soak: build ## run epochs for two hours and measure what they leave behind; each call adds a segment (resumable)
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.soak

real-time-soak: build ## run a query in real-time mode for an hour, and measure memory and latency
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.real_time_soak

pinned: ## create the virtual environment of a release, with the packages that release/requirements.txt pins
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes -r $(PINS)
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	touch $(VENV)

pins: ## update release/requirements.txt to the newest versions that pyproject.toml allows (needs uv)
	uv pip compile pyproject.toml --extra dev --generate-hashes --universal --python-version 3.11 \
		--upgrade --no-annotate --custom-compile-command "make pins" --quiet --output-file $(PINS)

release: build ## build dist/ (wheel, sdist, Maven bundle and SBOM) twice, and test each as users install it
	$(BIN)/python release/make.py

first-hour: build ## run the quickstart in an empty folder with the wheel of `make release`, and store its transcript and times
	$(BIN)/python release/first_hour.py

first-pipeline: build ## run a pipeline with a schema, dead letters and an alert as the docs describe, with the wheel of `make release` (needs prometheus)
	$(BIN)/python release/first_pipeline.py

static-analysis: ## run SpotBugs with find-sec-bugs on the connector; spotbugs-exclude.xml gives the reason for each exclusion
	$(MVN) -q -pl connector compile spotbugs:check

linkage: $(VENV) ## check every class of the jar against the jars of each Spark version (downloads them once)
	$(BIN)/python jvm-shim/linkage/jars.py
	$(MVN) -q -pl connector test -Dtest=SparkLinkageTest,SparkInternalsTest

check: linkage ## check format, lint, types (including tests), the jar's references into Spark, generated pages, and the site
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict python/eoskafka tests/conftest.py
	@# In a separate run, because mypy would otherwise see two modules named conftest.
	$(BIN)/mypy --strict --exclude '^tests/conftest.py' tests
	$(BIN)/python docs/make.py --check
	$(BIN)/python docs/web/make_site.py
	$(MVN) -q spotless:check
	@PYTHONPATH=tests:tests/integration $(BIN)/python -m prove --stale

docs: $(VENV) ## update the generated pages and tables
	$(BIN)/python docs/make.py

site: $(VENV) ## build the pages as a web site in build/site, which loads nothing from other hosts
	$(BIN)/python docs/web/make_site.py

surface: $(VENV) ## update the list of public names, after an intended change
	$(BIN)/python tests/unit/test_public_surface.py

clean: ## remove what was built (not .venv)
	rm -rf build dist python/*.egg-info python/eoskafka/jars jvm-shim/target jvm-shim/*/target
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage

# If the stamp is newer than pyproject.toml, all packages that pyproject.toml requires are installed.
$(VENV): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e ".[dev]"
	touch $@
