# Which GPU rental processes all documents, well enough and in time, for the smallest budget?
# `make help` lists the targets. Each one calls `runner <command>`; that command gives the exact exit
# status (0 done, 2 input refused, 3 recorded but not accepted). make itself knows only 0 and 2.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:
MAKEFLAGS += --no-print-directory
# With -j too, `make validate decide` are steps of one chain: one after the other, as typed.
.NOTPARALLEL:

# ---- what a user may say -------------------------------------------------------------------------
# Values go to the commands through the environment and are quoted there: a value is never pasted
# into a shell line and never expanded by make.
PYTHON ?= python3
USER_VARIABLES := PYTHON EXTRAS SYSTEM_TORCH CAMPAIGN GPU BATCHES SERIES PASSES HOURS DAYS LOTS ACCEPTED NOTE_LANG \
  RENTAL FROM LICENCE PERMISSION TUNING ID_COLUMN TEXT_COLUMN LABEL_COLUMN GROUP_COLUMN SKIP_EMPTY ALL REPLACE DELIMITER ENCODING TUNING_FROM CORPUS SIGNERS FIGURES TESTS \
  DOCUMENTS LEDGER TO TARIFFS ATTEMPT REASON RULE \
  NNODES NODE_RANK RDZV_ENDPOINT RDZV_BACKEND RDZV_ID MODEL DEVICE
$(foreach name,$(USER_VARIABLES),$(eval override $(name) := $$(value $(name))))
export $(USER_VARIABLES)
# Read from the environment by all that sign: freeze, report, archive. One setting for all of them.
KEY_VARIABLES := SIGNING_KEY PDF_SIGNING_P12 PDF_SIGNING_PASSPHRASE_FILE
$(foreach name,$(KEY_VARIABLES),$(eval override $(name) := $$(value $(name))))
export $(KEY_VARIABLES)
# A misspelled name would be ignored (`PASES=8`), and a paid hour measured something else: it is refused.
PASSED_ON := PIP_% HF_% OMP_% CUDA_% HIP_% ROCR_% %_proxy %_PROXY RUNNER_DEBUG SHELL MAKE% -%
UNKNOWN := $(filter-out $(PASSED_ON),$(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name))))
ifneq ($(strip $(UNKNOWN)),)
$(error error: no target knows $(strip $(UNKNOWN)); "make help" shows the names that each target takes)
endif

NO_PYTHON = { echo "error: no program '$$PYTHON' here; Python 3.11 or newer is needed: make setup PYTHON=/path/to/python3.11" >&2; exit 2; }
INSTALL = { command -v "$$PYTHON" > /dev/null || $(NO_PYTHON); } && "$$PYTHON" tools/python_version.py && "$$PYTHON" tools/install.py
INSTALLED := .venv/installation.json
RUNNER := .venv/bin/runner $${CAMPAIGN:+--campaign "$$CAMPAIGN"}
# The command's own status, since make turns every failure into 2.
STATUS = || { status=$$?; echo "runner: exit status $$status (make reports every failure as 2)" >&2; exit $$status; }
# $(call NEED,NAMES): refuse with the target's usage where a variable that the command cannot do without is empty.
USAGE = awk -F ' \#\# ' -v target="$@:" 'index($$0, target) == 1 {sub(/^[^:]*: /, "", $$2); print $$2; exit}' Makefile
NEED = for name in $(1); do eval "value=\$$$$name"; [ -n "$$value" ] || \
  { echo "error: make $@ needs $$name: make $@ $$($(USAGE))" >&2; exit 2; }; done
# Shared processor cores make waiting threads expensive: tests and benchmarks use one.
ONE_THREAD := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive

.PHONY: help
help: ## List the targets
	@echo "Usage: make TARGET [NAME=value ...]    (start with: make note)"
	@awk -F ' ## ' '/^## /{printf "\n%s\n", substr($$0, 4)} /^[a-z-]+:.* ## /{split($$1, t, ":"); n = split($$2, w, " "); line = sprintf("  %-12s", t[1]); \
	  for (i = 1; i <= n; i++) { if (length(line " " w[i]) > 80) { print line; line = sprintf("  %-12s", "") } line = line " " w[i] } print line}' Makefile

## Start
.PHONY: setup note
setup: ## Install into .venv [EXTRAS="measure report dev"] [SYSTEM_TORCH=1] [PYTHON=python3.12]
	@$(INSTALL) --extras "$$EXTRAS" --system-torch "$$SYSTEM_TORCH"

note: ## The main job from nothing: install, measure the embedded example on this machine, write the signed note
	@$(INSTALL) --extras "measure report" --system-torch "$$SYSTEM_TORCH"
	@$(RUNNER) note $${GPU:+--gpu "$$GPU"} $${BATCHES:+--batches "$$BATCHES"} $${NOTE_LANG:+--language "$$NOTE_LANG"} $(STATUS)

# What is installed stays as it is; only a changed pyproject.toml or constraints.txt installs again.
$(INSTALLED): pyproject.toml constraints.txt requirements-torch.txt
	@$(INSTALL) --extras "$$EXTRAS" --system-torch "$$SYSTEM_TORCH"

## The chain, step by step [CAMPAIGN=folder]
.PHONY: baseline freeze plan measure collect validate decide report verify archive
baseline: $(INSTALLED) ## Make the reference predictions, untimed [GPU=b200 for a model too large for this processor]
	@$(RUNNER) baseline $${GPU:+--gpu "$$GPU"} $(STATUS)

freeze: $(INSTALLED) ## Fix the quality protocol before any time is looked at
	@$(RUNNER) freeze $(STATUS)

plan: $(INSTALLED) ## Write the blank sheet of planned attempts
	@$(RUNNER) plan $(STATUS)

measure: $(INSTALLED) ## Measure: GPU=b200 BATCHES="1 4 8" or SERIES=precision [PASSES=8] [NNODES=2 NODE_RANK=0 ...]
	@$(call NEED,GPU)
	@$(RUNNER) measure $${GPU:+--gpu "$$GPU"} $${BATCHES:+--batches "$$BATCHES"} $${SERIES:+--series "$$SERIES"} \
	  $${PASSES:+--passes "$$PASSES"} $${NNODES:+--nnodes "$$NNODES"} $${NODE_RANK:+--node-rank "$$NODE_RANK"} \
	  $${RDZV_ENDPOINT:+--rdzv-endpoint "$$RDZV_ENDPOINT"} $${RDZV_BACKEND:+--rdzv-backend "$$RDZV_BACKEND"} \
	  $${RDZV_ID:+--rdzv-id "$$RDZV_ID"} $(STATUS)

collect: $(INSTALLED) ## Merge the records of several rentals into this campaign: FROM="folder folder"
	@$(call NEED,FROM)
	@set -f; $(RUNNER) collect $$FROM $(STATUS)

validate: $(INSTALLED) ## Judge every attempt against the frozen protocol
	@$(RUNNER) validate $(STATUS)

decide: $(INSTALLED) ## Write balance and decision
	@$(RUNNER) decide $(STATUS)

report: $(INSTALLED) ## Write and sign the decision note, unless nothing changed [NOTE_LANG=de] [SIGNING_KEY=file]
	@.venv/bin/python tools/note_is_fresh.py || $(RUNNER) report $${NOTE_LANG:+--language "$$NOTE_LANG"} $(STATUS)

verify: $(INSTALLED) ## Check hashes, signatures and chain, and decide again [FROM=archive.zip] [SIGNERS=file] [NOTE_LANG=de]
	@$(RUNNER) verify $${NOTE_LANG:+--lang "$$NOTE_LANG"} $${SIGNERS:+--signers "$$SIGNERS"} $${FROM:+"$$FROM"} $(STATUS)

archive: $(INSTALLED) ## Keep all evidence in one signed archive: RENTAL=rental.toml
	@$(call NEED,RENTAL)
	@$(RUNNER) archive $${RENTAL:+--rental "$$RENTAL"} $(STATUS)

## Beside the chain
.PHONY: price window calculator forecast rental reprice exclude memory lab protocol corpus doctor rehearse demo-model
price: $(INSTALLED) ## Price packages: GPU=rtx-4090 DAYS=7 LOTS=2 [HOURS=96] [ACCEPTED=n]
	@$(call NEED,GPU)
	@$(RUNNER) price $${GPU:+--gpu "$$GPU"} $${DAYS:+--days "$$DAYS"} $${HOURS:+--window-hours "$$HOURS"} $${LOTS:+--lots "$$LOTS"} \
	  $${ACCEPTED:+--accepted-results "$$ACCEPTED"} $(STATUS)

window: $(INSTALLED) ## Hours from first start to last collection of the plan, and which packages cover
	@$(RUNNER) window $(STATUS)

calculator: $(INSTALLED) ## Write note/calculator.html: the prices on one page without network [NOTE_LANG=de]
	@$(RUNNER) calculator $${NOTE_LANG:+--language "$$NOTE_LANG"} $(STATUS)

forecast: $(INSTALLED) ## How long more documents would take, a planning assumption: DOCUMENTS=1000000
	@$(call NEED,DOCUMENTS)
	@$(RUNNER) forecast $${DOCUMENTS:+--documents "$$DOCUMENTS"} $(STATUS)

rental: $(INSTALLED) ## Match a rental record with the decision: RENTAL=rental.toml [LEDGER=ledger.csv]
	@$(call NEED,RENTAL)
	@$(RUNNER) rental $${LEDGER:+--ledger "$$LEDGER"} $${RENTAL:+"$$RENTAL"} $(STATUS)

reprice: $(INSTALLED) ## New prices for an old note, nothing measured again: FROM=archive.zip TO=folder TARIFFS=new.csv
	@$(call NEED,FROM TO)
	@$(RUNNER) reprice $${TARIFFS:+--tariffs "$$TARIFFS"} $${NOTE_LANG:+--language "$$NOTE_LANG"} $${FROM:+"$$FROM"} $${TO:+"$$TO"} $(STATUS)

exclude: $(INSTALLED) ## Leave an attempt out for an external reason: ATTEMPT=id REASON="..." RULE="..."
	@$(call NEED,ATTEMPT REASON RULE)
	@$(RUNNER) exclude $${REASON:+--reason "$$REASON"} $${RULE:+--rule "$$RULE"} $${ATTEMPT:+"$$ATTEMPT"} $(STATUS)

memory: $(INSTALLED) ## Memory exercise: weights and activations, estimated and observed [MODEL=folder] [DEVICE=cuda]
	@$(RUNNER) memory $${MODEL:+--model "$$MODEL"} $${DEVICE:+--device "$$DEVICE"} $(STATUS)

lab: $(INSTALLED) ## Everything for working by hand into lab/: instructions, blank sheet, price script
	@$(RUNNER) lab $(STATUS)

protocol: $(INSTALLED) ## Start a quality protocol of your own; asks what it needs to know
	@$(RUNNER) protocol new $(STATUS)

corpus: $(INSTALLED) ## Build a corpus: FROM=my.csv LICENCE=... PERMISSION=... [ID_COLUMN=no TEXT_COLUMN=body LABEL_COLUMN=class] [ALL=1] [TUNING=500 or TUNING_FROM=train.csv] [GROUP_COLUMN=region] [SKIP_EMPTY=1] [REPLACE=1] [CORPUS=name] [DELIMITER=;] [ENCODING=cp1252]
	@$(call NEED,FROM)
	@$(RUNNER) corpus $${FROM:+--from "$$FROM"} $${LICENCE:+--licence "$$LICENCE"} $${PERMISSION:+--permission "$$PERMISSION"} \
	  $${ID_COLUMN:+--id-column "$$ID_COLUMN"} $${TEXT_COLUMN:+--text-column "$$TEXT_COLUMN"} \
	  $${LABEL_COLUMN:+--label-column "$$LABEL_COLUMN"} $${TUNING:+--tuning "$$TUNING"} $${GROUP_COLUMN:+--group-column "$$GROUP_COLUMN"} \
	  $${CORPUS:+--name "$$CORPUS"} $${DELIMITER:+--delimiter "$$DELIMITER"} $${ENCODING:+--encoding "$$ENCODING"} \
	  $${TUNING_FROM:+--tuning-from "$$TUNING_FROM"} \
	  $$(case "$$ALL" in (''|0|no) ;; (*) echo --all ;; esac) $$(case "$$REPLACE" in (''|0|no) ;; (*) echo --replace ;; esac) \
	  $$(case "$$SKIP_EMPTY" in (''|0|no) ;; (*) echo --skip-empty ;; esac) $(STATUS)

doctor: $(INSTALLED) ## Say what can be measured on this machine, and why not
	@$(RUNNER) doctor $(STATUS)

rehearse: $(INSTALLED) ## Try everything for two minutes before paid hours: GPU=b200
	@$(RUNNER) rehearse $${GPU:+--gpu "$$GPU"} $(STATUS)

demo-model: $(INSTALLED) ## Make the embedded corpus and model again (minutes)
	@$(RUNNER) demo-model $(STATUS)

## Work on the project
.PHONY: test test-gpu lint bench lock clean
test: ## Install and run all tests [TESTS=tests/house]
	@$(INSTALL) --extras "measure report dev" --system-torch "$$SYSTEM_TORCH" --test-tools
	@$(ONE_THREAD) .venv/bin/python -m pytest -n 2 --dist loadfile $${TESTS:+"$$TESTS"}

test-gpu: $(INSTALLED) ## Run the tests that need a real GPU
	@.venv/bin/python -m pytest -m gpu $${TESTS:+"$$TESTS"}

lint: ## Check style, types and the floors of the house
	@$(INSTALL) --extras "measure report dev" --system-torch "$$SYSTEM_TORCH"
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/mypy
	@.venv/bin/mypy tools benchmarks
	@.venv/bin/lint-imports

bench: $(INSTALLED) ## Measure the project's own speed into benchmarks/results.json [FIGURES="help report"]
	@$(ONE_THREAD) .venv/bin/python -m benchmarks $${FIGURES:+--only "$$FIGURES"}

lock: ## Write constraints.txt again from pyproject.toml
	@"$$PYTHON" tools/python_version.py && "$$PYTHON" tools/lock.py

clean: ## Remove caches and the environment; records and notes stay
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# Written whole or not at all: make has nothing to delete after a failure.
.PRECIOUS: $(INSTALLED)
