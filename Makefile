# Every target sets up what it needs: a fresh clone, Python 3.11 or newer and a network are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
LOCK := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate
OURS := --no-deps --no-build-isolation --editable .
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder
# Files of quick tests in memory, if it has room: a tenth of their time went into new ledgers on the disk.
IN_MEMORY := $(shell [ "$$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $$4}')" -gt 2000000 ] 2>/dev/null && echo PYTEST_DEBUG_TEMPROOT=/dev/shm)
# The marks of tests that `make test` leaves to `make test-rest`; pyproject.toml describes them.
REST := server or browser or postgres or acceptance or faults or full

# Without its compiled modules, every process of ours would compile them anew: half of a short command's time.
unexport PYTHONDONTWRITEBYTECODE

# $(call needs,PROGRAM=PACKAGE ...): stop with one line that names the command, if a program is missing.
needs = @missing=; for each in $(1); do PATH="$$PATH:/usr/sbin:/usr/lib/postgresql/15/bin" command -v "$${each%=*}" >/dev/null || \
	missing="$$missing $${each\#*=}"; done; [ -z "$$missing" ] || { echo "make $@: programs are missing; on Debian: apt install$$missing" >&2; exit 2; }

.PHONY: help setup demo test test-rest test-long test-scale test-all soak fuzz check docs pictures bench bench-peers load hazards pairs wheel wheelhouse lock clean

help:            ## what can be made
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/ —/'

setup: $(VENV)/.ready  ## the environment, from requirements.lock

$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "catchment needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3 cannot make a virtual environment; on Debian: apt install python3-venv" >&2; exit 2; }
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.lock
	@$(PIP) install --require-hashes -r $(VENV)/uv.lock && $(UV) --compile-bytecode --require-hashes -r requirements.lock && $(UV) $(OURS) || { \
		echo "uv cannot install here; pip does it, which takes a minute longer" >&2; \
		$(PIP) install --require-hashes -r requirements.lock -c requirements.lock && $(PIP) install $(OURS); }
	@touch $@

demo: setup      ## ingest the example vault and this repository, show the result (ARGS=--exit, SOURCE=~/MyVault)
	$(BIN)/catchment demo $(ARGS) $(if $(SOURCE),--source "$(SOURCE)")

test: setup      ## the quick tests, which need no server (ARGS=tests/ledger)
	@echo 'About 8,800 quick tests in three processes. The tests of one room: make test ARGS=tests/ledger'
	$(IN_MEMORY) $(PYTEST) -n 3 -o tmp_path_retention_policy=failed -m "not ($(REST) or long or soak)" $(ARGS)

# Half of the time these tests wait for another process.
test-rest: setup ## what .ci/run adds: flows on a server, PostgreSQL, Dovecot, the installed command, short faults
	$(PYTEST) -n 4 -m "($(REST)) and not (long or soak)" $(ARGS)

test-long: setup ## the tests that take minutes: killed processes, full disks, clocks that jump, a browser, Tesseract, programs of others (800 MB in build/programs, from PyPI)
	$(PYTEST) -n 4 -m "long and not soak" $(ARGS)

test-scale:      ## of these, several hosts with one library on PostgreSQL, Redis and two Prefect servers (as root)
	$(call needs,postgres=postgresql redis-server=redis-server nginx=nginx-light)
	@[ "$$(id -u)" -eq 0 ] || { echo "make $@: needs root, because PostgreSQL runs as a user of its own; run: sudo make $@" >&2; exit 2; }
	@$(MAKE) --no-print-directory setup
	$(PYTEST) -m "scale and not soak" $(ARGS)

test-all: test test-rest test-long  ## all of these

soak: setup      ## long faults and two thousand syncs, in rounds of 20 minutes; continues where it stopped (ARGS="--rounds 1")
	$(BIN)/python -m benchmarks.soak $(ARGS)

fuzz: setup      ## input led by what of our code it reaches, two minutes for each parser (ARGS="note message --seconds 600")
	$(PIP) install --no-build-isolation --editable ".[fuzz]"
	nice -n 15 $(BIN)/python -m tests.fuzz $(or $(ARGS),all)

check: setup     ## style and types
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup      ## the documents as a site in build/site, each link checked; read it: python3 -m http.server -b 127.0.0.1 -d build/site
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python build/docs-venv
	@$(BIN)/uv pip install --quiet --python build/docs-venv/bin/python zensical==0.0.73
	@rm -rf build/docs && mkdir -p build/docs && cp -r --parents *.md LICENSE docs tests/hazards/RESULTS.md build/docs
	@build/docs-venv/bin/zensical build --clean --strict

bench: setup     ## speed and memory beside a bare loop and pdftotext, what search finds, and from a save to a search (ARGS=--quick)
	$(BIN)/python -m benchmarks $(ARGS)
	$(BIN)/python -m benchmarks.relevance
	$(BIN)/python -m benchmarks.latency
	$(BIN)/python -m benchmarks.imap
	$(BIN)/python -m benchmarks.github_files
	$(BIN)/python -m benchmarks.github_api
	$(BIN)/python -m benchmarks.web $(ARGS)
	$(BIN)/python -m benchmarks.programs $(ARGS)
	$(BIN)/python -m benchmarks.telemetry $(ARGS)
	$(BIN)/python -m benchmarks.alarms
	$(BIN)/python -m benchmarks.rollups 60
	$(BIN)/python -m benchmarks.scale $(ARGS)

bench-peers: setup ## the same notes by `catchment sync`, dlt into DuckDB and CocoIndex, which are installed into build/; PDFs by Recoll (ARGS=2000)
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python build/peers-venv
	@$(BIN)/uv pip install --quiet --compile-bytecode --python build/peers-venv/bin/python -r benchmarks/peers/requirements.txt
	$(BIN)/python -m benchmarks.peers $(ARGS)

pictures: setup  ## the pictures in docs/images: diagrams, and the page with the example vault (needs Chromium)
	$(BIN)/python docs/images/draw.py
	PYTHONPATH=. $(BIN)/python docs/images/screenshots.py

load: setup      ## a million small notes through the engine, how four unequal sources share the machine, how long searches take (ARGS=--quick)
	$(BIN)/python -m benchmarks.million $(ARGS)
	$(BIN)/python -m benchmarks.load $(ARGS)
	$(BIN)/python -m benchmarks.pages $(ARGS)
	$(BIN)/python -m benchmarks.relevance.scale

hazards: setup   ## a hundred mishaps of folders, mail, repositories, processes and disks (ARGS="--beside langchain_index": other libraries too)
	$(BIN)/python -m tests.hazards $(ARGS)

pairs: setup     ## pairs of acts that write the same rows: one starts, or is killed, at each step of the other (ARGS="--kills 20 --pair undo+replay --seed 7")
	$(BIN)/python -m tests.pairs $(ARGS)

wheel: setup     ## the wheel, and the tested versions of what it needs as constraints.txt, in dist/
	rm -f dist/*.whl dist/*.tar.gz
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || date -r pyproject.toml +%s) \
		$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python
	sed '/^ /d; s/ \\$$//' requirements.lock > dist/constraints.txt

wheelhouse: wheel ## dist/wheelhouse: all that an installation without a network needs, for this Python and system
	mkdir -p build && cp requirements.lock build/runtime.lock
	$(BIN)/uv pip compile --quiet $(LOCK) $(addprefix --extra ,postgres otel graph parquet archives) -o build/runtime.lock pyproject.toml
	rm -rf dist/wheelhouse
	$(PIP) wheel --no-deps --require-hashes -r build/runtime.lock -w dist/wheelhouse
	cp dist/*.whl dist/wheelhouse

lock: setup      ## renew requirements.lock from pyproject.toml (ARGS=--upgrade: newer versions)
	echo setuptools | $(BIN)/uv pip compile $(LOCK) --extra test $(ARGS) -o requirements.lock pyproject.toml -

clean:           ## remove the environment and the demo's state
	rm -rf $(VENV) .demo
