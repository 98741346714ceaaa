"""What the documents promise exists: commands with their flags, make's targets, pinned dependencies, the CI script."""

import re
import shlex
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
TARGETS = {"help", "install", "demo", "test", "test-all", "lint", "bench", "clean"}

FENCE = re.compile(r"^[ ]*```(?:console|bash)\b[^\n]*\n(.*?)^[ ]*```", re.MULTILINE | re.DOTALL)
BETWEEN_COMMANDS = {"&&", "||", "|", ";", "&"}


def commands(markdown: str, program: str) -> list[list[str]]:
    """The arguments of every call of a program in the fenced console and bash blocks.

    Where a block has prompts, only the lines with a prompt are commands and the rest is output.
    """
    found = []
    for block in FENCE.findall(markdown):
        lines = [line.strip() for line in block.replace("\\\n", " ").splitlines()]
        if any(line.startswith("$ ") for line in lines):
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        lines = [line for line in lines if program in line]
        found += [words[1:] for line in lines for words in split(line) if words and Path(words[0]).name == program]
    return found


def split(line: str) -> list[list[str]]:
    """The words of each command in a line of shell, without comments and without assignments in front."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in lexer:
        if word in BETWEEN_COMMANDS:
            found.append([])
        elif found[-1] or not re.fullmatch(r"[A-Z_]+=.*", word):
            found[-1].append(word)
    return found


def mistakes(words: list[str], command: Any) -> list[str]:
    """The verbs and flags in a command line that the command does not have."""
    rest = words[: words.index("--")] if "--" in words else list(words)
    while rest and getattr(command, "commands", None) and not rest[0].startswith("-"):
        verb = rest.pop(0)
        if verb not in command.commands:
            return [f"no verb {verb} (known: {', '.join(sorted(command.commands))})"]
        command = command.commands[verb]
    known = {"--help"}.union(*(parameter.opts + parameter.secondary_opts for parameter in command.params))
    flags = [word.partition("=")[0] for word in rest if re.match(r"--?[A-Za-z]", word)]
    return [
        f"no flag {flag} (known: {', '.join(sorted(k for k in known if k[0] == '-'))})" for flag in flags if flag not in known
    ]


@pytest.fixture(scope="module")
def tenfold() -> Any:
    if find_spec("tenfold.cli") is None:
        pytest.skip("the command line is not there yet")
    return typer.main.get_command(import_module("tenfold.cli").app)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_the_commands_in_the_documents_exist(document: Path, tenfold: Any) -> None:
    shown = commands(document.read_text(encoding="utf-8"), "tenfold")
    assert shown or document.name != "README.md", "README.md shows no command in a console or bash block"
    found = [f"tenfold {' '.join(words)}: {mistake}" for words in shown for mistake in mistakes(words, tenfold)]
    assert not found, "\n".join(found)


def test_commands_are_read_from_fenced_blocks() -> None:
    markdown = """
`tenfold inline` and
```console
$ A=1 tenfold plan "my model" \\
    --to 1/48  # why
tenfold 0.1.0
$ cd x && .venv/bin/tenfold show out | head
```
- a list
  ```bash
  tenfold demo
  make test
  ```
```python
tenfold = 1
```
"""
    assert commands(markdown, "tenfold") == [["plan", "my model", "--to", "1/48"], ["show", "out"], ["demo"]]
    assert commands(markdown, "make") == [["test"]]


def test_mistakes_in_commands_are_found() -> None:
    app = typer.Typer()

    @app.command()
    def plan(model: str, to: str = "", fast: bool = False) -> None: ...

    @app.command()
    def show(folder: str) -> None: ...

    command = typer.main.get_command(app)
    for line in ("plan bert --to 1/48 --no-fast", "plan --to=1/48 -- --strange", "show out", "--help", "show --help"):
        assert mistakes(line.split(), command) == [], line
    for line in ("plam bert", "plan bert --too 1/48", "show out --to 1/48", "show -o out", "--to 1/48"):
        assert len(mistakes(line.split(), command)) == 1, line


def test_make_has_the_targets_in_the_documents() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))
    assert targets == TARGETS
    assert targets == set(re.findall(r"^([a-z][a-z-]*):.*## \S", text, re.MULTILINE)), "every target says what it does"
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == targets
    for document in DOCUMENTS:
        markdown = document.read_text(encoding="utf-8")
        shown = {words[0] for words in commands(markdown, "make") if words} | set(re.findall(r"`make ([a-z-]+)", markdown))
        assert shown <= targets, document.name


def test_every_direct_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pin) == 2 for pin in pins), "constraints.txt holds name==version lines and nothing else"
    versions = {canonicalize_name(name): version for name, version in pins}
    assert len(versions) == len(pins)
    for requirement in map(Requirement, [*project["dependencies"], *(line for extra in extras for line in extra)]):
        assert requirement.specifier.contains(versions.get(canonicalize_name(requirement.name), "")), requirement


def test_ci_runs_what_a_contributor_runs() -> None:
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111
    lines = [line for line in script.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert lines[0] == "set -euo pipefail"
    assert [line for line in lines if line.startswith("make")] == ["make test"]


def test_contributing_fits_a_page() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) < 60
