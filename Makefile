# Everything runs in .venv, which the first command makes. Only Python 3.11+ (with venv) and make are needed.
#   make install                      only install it, with the embedded model and the notebooks
#   make demo                         evaluate the embedded model, end to end
#   make demo MODEL=ollama/qwen3:4b   the same against an Ollama server
#   make agent-demo                   the same for whole agent runs: tools that run, state that is checked
#   make test                         lint, types, tests, tutorials
#   make test CI=true                 the same with the slow tests and a minute of hostile input
#   make lab                          JupyterLab on the notebooks

PYTHON ?= python3
MODEL ?= embedded/smollm2-135m
RUN ?= runs/demo
BIN := .venv/bin

.PHONY: install demo agent-demo test lab clean

install: .venv/.demo

demo: .venv/.demo
	$(BIN)/python -m toolkit demo --model "$(MODEL)" --run "$(RUN)"

agent-demo: .venv/.demo
	$(BIN)/python -m toolkit demo --model "$(MODEL)" --run runs/agent-demo --cases runs --run-as agent \
		--recipes notebooks/batch/agent_recipes

test: .venv/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	-$(BIN)/python -m toolkit models --fetch embedded/smollm2-135m
	$(BIN)/python -m pytest --nbval-lax --nbval-current-env --nbval-sanitize-with tests/nbval.cfg -p no:cacheprovider -q notebooks/tutorials
	$(if $(CI),$(BIN)/python -m tests.hostile --budget 60)
	$(BIN)/python -m pytest -p no:nbval -n auto --dist loadfile $(if $(CI),,-m "not slow")

lab: .venv/.demo
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks

clean:
	rm -rf .venv runs

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Python 3.11 or newer is needed; {sys.executable} is {sys.version.split()[0]}. Use make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv .venv

.venv/.demo: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[embedded,notebook]'
	@touch $@

.venv/.test: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[embedded,notebook,openapi,mcp,langchain,cluster,test]'
	@touch $@
