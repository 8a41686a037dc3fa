# Everything a developer types. `make` alone lists it. POSIX sh only; the work is in scripts/.

PY = .venv/bin/python
# Enough to load the production settings; nothing connects to these addresses.
PROD_ENV = DJANGO_SETTINGS_MODULE=agentx.settings.prod ALLOWED_HOSTS=agentx.example \
	SECRET_KEY=check-only-0123456789-abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJ \
	DATABASE_URL=postgresql://agentx@db.example/agentx REDIS_URL=redis://redis.example/0 LLM_BASE_URL=https://llm.example/v1
# For commands that work without a database and say so in the log.
QUIET = AGENTX_LOG_LEVEL=CRITICAL

# Python's and the front end's packages are installed at the same time.
MAKEFLAGS += -j2

.DEFAULT_GOAL := help
.PHONY: help run test test-fast check e2e bench format wire lock setup setup-dev frontend frontend-deps clean

help: ## list the commands
	@sed -n 's/^\([a-z][a-z0-9-]*\):[^#]*## \(.*\)/  make \1 @\2/p' Makefile | awk -F@ '{ printf "%-18s %s\n", $$1, $$2 }'

run: setup frontend ## start everything on this machine and print a sign-in link (Ctrl-C stops it)
	@exec $(PY) manage.py up

test: setup-dev frontend ## run every test: Python, front end, browser
	$(PY) -m pytest -n auto --dist worksteal -m "not e2e"
	npm --prefix frontend run test
	@sh scripts/browser.sh $(PY) -m pytest -m e2e tests/e2e

test-fast: setup-dev ## run the Python tests that need no running stack
	$(PY) -m pytest -n auto --dist worksteal -m "not flow and not fault and not e2e and not model"

e2e: setup-dev frontend ## run the browser test alone
	@sh scripts/browser.sh $(PY) -m pytest -m e2e tests/e2e

bench: setup-dev frontend ## run the benchmarks; results also go to var/bench
	$(PY) -m tests.benchmarks

check: setup-dev frontend ## lint, types, import law, front-end checks, production settings, migrations
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pyright
	.venv/bin/lint-imports
	npm --prefix frontend run check
	@mkdir -p var
	$(QUIET) $(PY) manage.py spectacular --format openapi-json --file var/openapi.json
	@cmp -s var/openapi.json frontend/openapi.json || { echo "frontend/openapi.json is out of date: run make wire" >&2; exit 1; }
	$(PROD_ENV) $(PY) manage.py check --deploy --fail-level WARNING
	$(QUIET) $(PY) -W ignore manage.py makemigrations --check --dry-run

format: setup-dev frontend-deps ## rewrite the code in the project's style
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	npm --prefix frontend run format

wire: setup-dev frontend-deps ## write the API's schema and the front end's types again
	$(QUIET) $(PY) manage.py spectacular --format openapi-json --file frontend/openapi.json
	npm --prefix frontend run wire

lock: setup-dev ## write requirements/*.txt again from their .in sources
	sh scripts/lock.sh

clean: ## remove what was installed and built; data in var/ stays
	rm -rf .venv frontend/node_modules frontend/dist

setup:
	@sh scripts/python.sh run

setup-dev:
	@sh scripts/python.sh dev

frontend-deps:
	@sh scripts/frontend.sh deps

frontend:
	@sh scripts/frontend.sh build
