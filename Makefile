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
# The lower end of the range in pyproject.toml, and the tests of what asks brokers from Python.
OLDEST := 3.0.0
ASKING := audit_reader doctor local_cluster offsets transactions upgrade verify
# Every package of the development environment, with its version and digests.
PINS := release/requirements.txt
FEW := --peers built-in
# Spark's other way to write the logs of a checkpoint on a local disk (docs/sizing.md).
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

help: ## this list
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(VENV) ## the virtual environment and, if missing or stale, the connector's jar
	$(BIN)/python -c "from eoskafka._jar import main; main()"

demo: build ## a crash without a duplicate, shown on a local cluster
	$(BIN)/eoskafka demo

compare: build ## the demo with the built-in connector beside, its figures and its picture
	mkdir -p build
	$(BIN)/eoskafka demo --compare --seed 7 --records 200000 --format json \
		--plot reports/demo-compare.png > build/demo-compare.json
	mv build/demo-compare.json reports/demo-compare.json

unit: build ## the tests that need no broker, of both languages (about a minute)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target unit-java unit-python

unit-java:
	@# Tests are short: what the second compiler of the JVM gains costs more than it saves.
	JAVA_TOOL_OPTIONS=-XX:TieredStopAtLevel=1 $(MVN) -q -pl connector test -Deoskafka.schedules=100

unit-python:
	@# A third of the inputs and schedules that `make test` tries.
	EOSKAFKA_TRIES=100 $(BIN)/pytest -q -n 2 tests/unit

test: build ## JVM unit tests, unit and integration tests, a short campaign of faults
	mkdir -p build
	@# Beside the JVM's tests: what both processes of pytest would make at once.
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

test-oldest: build ## the commands' tests with the oldest kafka-python that is allowed
	$(BIN)/pip install --quiet --no-deps --target build/kafka-python-$(OLDEST) --upgrade \
		kafka-python==$(OLDEST)
	PYTHONPATH=$(CURDIR)/build/kafka-python-$(OLDEST) $(BIN)/pytest -m "not slow" tests/unit \
		$(addprefix tests/integration/test_,$(addsuffix .py,$(ASKING)))

bench: bench-near bench-far ## every benchmark (six hours), and the tables and plots made from them

bench-near: build ## the benchmarks with one broker beside Spark (four hours)
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

bench-far: build ## the benchmarks with three brokers that are 1, 5 and 20 ms away (two hours)
	mkdir -p $(RESULTS)
	set -e; for ms in $(ROUND_TRIPS); do \
		$(BENCH) throughput $(FAR) $$ms --peers built-in,streams,flink --records 2000000 \
			--rounds 3 $(INTO)/throughput-far-$$ms.json; \
		$(BENCH) latency $(FAR) $$ms --seconds 20 --warm-up 10 --rounds 2 \
			$(INTO)/latency-far-$$ms.json; \
		$(BENCH) epoch $(FAR) $$ms --rounds 3 $(INTO)/epoch-far-$$ms.json; \
	done
	$(BIN)/python docs/make.py

fuzz: build ## readers of what others could have written: a million inputs for each one in Java, a hundred thousand in Python (half an hour)
	mkdir -p build
	$(MVN) -pl connector test -Dgroups=reader -Deoskafka.tries=1000000 \
		-Deoskafka.corpus=$(CURDIR)/build/fuzz-corpus.jsonl
	PYTHONPATH=tests $(BIN)/python -m fuzz --corpus build/fuzz-corpus.jsonl

coverage: $(VENV) ## which lines and branches of the Python package the unit tests run
	$(BIN)/pytest -q tests/unit --cov --cov-report=term

model: $(VENV) ## the protocol's models (needs spin and a C compiler)
	$(BIN)/python tests/model/run.py

simulate: ## a million schedules of faults against the driver's side of epoch scope (SCHEDULES=N, SEED=N)
	$(MVN) -q -pl connector test -Dtest=EpochSimulationTest -Deoskafka.schedules=$(SCHEDULES) \
		$(if $(SEED),-Deoskafka.seed=$(SEED))

requests: build ## which requests queries of each kind send, by a broker's log, and the report on it
	PYTHONPATH=tests:tests/integration $(BIN)/python -m requestlog

mutations: build ## each rule taken out in turn, and its test that must then fail (resumable)
	$(BIN)/python tests/mutations/run.py --resume $(addprefix --passed ,$(wildcard build/tests.xml))

prove: build ## what a guarantee rests on and CI leaves out, and reports/proof.md (a day, resumable)
	PYTHONPATH=tests:tests/integration $(BIN)/python -m prove $(if $(MINUTES),--minutes $(MINUTES))

matrix: build ## the crash tests on each Spark version, and docs/compatibility.md (two hours, resumable)
	PYTHONPATH=tests:tests/integration $(BIN)/python -m matrix.run
	$(BIN)/python docs/make.py

corpus: build ## starts after a crash, with a former connector and with this one (resumable)
	$(BIN)/python tests/corpus/run.py

upgrades: build ## a killed query continues on another Spark version, and the report on it (resumable)
	$(BIN)/python tests/corpus/upgrades.py

chaos: build ## half an hour of faults (MINUTES=N for another time), and the report on all so far
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.chaos $(if $(MINUTES),--minutes $(MINUTES))

handover: build ## a new version takes over from the running one, and the report on it
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.handover

migration: build ## from the built-in connector and back, under load, and the report on it
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.migration

damaged-checkpoints: build ## starts after files of a checkpoint were damaged, beside the built-in connector (resumable)
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.damaged_checkpoints

registration: build ## requests per transaction with and without registerTopics, and the report
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.registration

costs: build ## what a batch costs the brokers, for `eoskafka size` (five minutes)
	PYTHONPATH=tests:tests/integration $(BIN)/python -m costs

start-time: build ## the start of a query whose checkpoint knows many writes, and the report
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.start_time

many-queries: build ## what many queries in one driver cost, beside the built-in connector, and the report
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.many_queries

large: build ## a backlog of 100 million records, and a state with a million keys, and the report (half an hour, 30 GB of disk)
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.large

growth: build ## what a query costs as partitions, slots, writers, queries and epochs grow, and the report (half an hour)
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.growth

soak: build ## two hours of epochs, and what they leave behind; each call is a further segment (resumable)
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.soak

real-time-soak: build ## an hour in real-time mode, and what it does to memory and latency
	PYTHONPATH=tests:tests/integration $(BIN)/python -m faults.real_time_soak

pinned: ## the virtual environment of a release: each package as release/requirements.txt has it
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes -r $(PINS)
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	touch $(VENV)

pins: ## release/requirements.txt anew, with the newest versions that pyproject.toml allows (needs uv)
	uv pip compile pyproject.toml --extra dev --generate-hashes --universal --python-version 3.11 \
		--upgrade --no-annotate --custom-compile-command "make pins" --quiet --output-file $(PINS)

release: build ## dist/: wheel, sdist, Maven bundle and SBOM, built twice, checked as users install them
	$(BIN)/python release/make.py

first-hour: build ## the quickstart from an empty folder, with the wheel of `make release`: its transcript and times
	$(BIN)/python release/first_hour.py

first-pipeline: build ## a pipeline with a schema, dead letters and an alert as the pages say, with the wheel of `make release` (needs prometheus)
	$(BIN)/python release/first_pipeline.py

static-analysis: ## SpotBugs with find-sec-bugs on the connector; what it does not report has a reason in spotbugs-exclude.xml
	$(MVN) -q -pl connector compile spotbugs:check

linkage: $(VENV) ## every class of the jar against the jars of each Spark version (downloads them once)
	$(BIN)/python jvm-shim/linkage/jars.py
	$(MVN) -q -pl connector test -Dtest=SparkLinkageTest,SparkInternalsTest

check: linkage ## format, lint, types (of tests, too), the jar's references into Spark, generated pages, the site
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict python/eoskafka tests/conftest.py
	@# Pytest's other conftest.py, so not both at once.
	$(BIN)/mypy --strict --exclude '^tests/conftest.py' tests
	$(BIN)/python docs/make.py --check
	$(BIN)/python docs/web/make_site.py
	$(MVN) -q spotless:check
	@PYTHONPATH=tests:tests/integration $(BIN)/python -m prove --stale

docs: $(VENV) ## the pages and tables that are generated
	$(BIN)/python docs/make.py

site: $(VENV) ## build/site: the pages as a web site, which loads nothing from other hosts
	$(BIN)/python docs/web/make_site.py

surface: $(VENV) ## the list of what is public, after an intended change of it
	$(BIN)/python tests/unit/test_public_surface.py

clean: ## remove what was built (not .venv)
	rm -rf build dist python/*.egg-info python/eoskafka/jars jvm-shim/target jvm-shim/*/target
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage

# The stamp is newer than pyproject.toml: what it asks for is installed.
$(VENV): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e ".[dev]"
	touch $@
