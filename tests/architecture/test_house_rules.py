"""The rules of the house, as tests: the import law, purity, sizes, doors, and documents that name real things."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentx.settings.env import VARIABLES

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("agentx", "conversations", "tools", "tests")
DOORS = ("consumers.py", "runner.py", "tasks.py", "api/", "admin", "management/")

MOST_LINES_IN_A_FILE = 600
MOST_LINES_IN_A_FUNCTION = 80


def _sources() -> list[Path]:
    found = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return [path for path in found if "migrations" not in path.parts]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_import_law_holds():
    linter = Path(sys.executable).with_name("lint-imports")

    done = subprocess.run([str(linter), "--no-cache"], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "module", ["conversations.context.assemble", "conversations.context.chain", "conversations.titles"]
)
def test_the_engine_loads_without_django(module):
    code = f"import sys, {module}; print(sorted(n for n in sys.modules if n.split('.')[0] in {{'django', 'redis', 'httpx'}}))"

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)

    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize("path", _sources(), ids=_name)
def test_files_and_functions_stay_small(path):
    text = path.read_text()
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    longest = (
        max(((node.end_lineno or 0) - node.lineno + 1, node.name) for node in functions)
        if functions
        else (0, "")
    )

    assert len(text.splitlines()) <= MOST_LINES_IN_A_FILE
    assert longest[0] <= MOST_LINES_IN_A_FUNCTION, longest[1]


@pytest.mark.parametrize("path", [p for p in _sources() if p.read_text().strip()], ids=_name)
def test_every_module_says_why_it_exists(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in _sources()
        if p.parts[len(ROOT.parts)] == "conversations" and any(d in _name(p) for d in DOORS)
    ],
    ids=_name,
)
def test_doors_reach_rows_through_the_access_selectors_only(path):
    """P17: no door may fetch a row that an outsider named; ``Model.objects.get`` in a door is how that begins."""
    forbidden = re.compile(r"\b(Conversation|Message|Run|ModelCall)\.objects\.(get|filter)\(\s*(pk|id)=")

    assert not forbidden.search(path.read_text())


def _named_paths(text: str) -> set[str]:
    """Paths in backticks that look like files or folders of ours."""
    roots = "agentx|conversations|tests|frontend|docs|requirements|.ci"
    return set(re.findall(rf"`((?:{roots})/[\w./-]*\w/?)`", text))


@pytest.mark.parametrize(
    "document",
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", *(_name(p) for p in ROOT.glob("docs/**/*.md"))],
)
def test_documents_name_real_paths(document):
    missing = [name for name in _named_paths((ROOT / document).read_text()) if not (ROOT / name).exists()]

    assert missing == []


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_documents_name_real_make_targets(document):
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z][\w-]*)`", (ROOT / document).read_text()))

    assert named <= targets


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_documents_name_real_commands(document):
    from django.core.management import get_commands

    named = set(re.findall(r"manage\.py ([a-z_]+)", (ROOT / document).read_text()))

    assert named <= set(get_commands())


def test_architecture_has_a_sentence_for_every_module():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    modules = [
        path
        for package in ("agentx", "conversations", "tools")
        for path in (ROOT / package).rglob("*.py")
        if not {"migrations", "commands"} & set(path.parts) and path.name not in ("__init__.py", "apps.py")
    ]

    assert [_name(path) for path in modules if f"`{_name(path)}`" not in text] == []


def test_architecture_names_the_seven_hops_and_they_exist():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    hops = {
        "ChatConsumer.receive_json": "conversations/consumers.py",
        "turn_submit": "conversations/services/submit.py",
        "turn_run": "conversations/services/run.py",
        "snapshot_load": "conversations/selectors/snapshot.py",
        "assemble_view": "conversations/context/assemble.py",
        "turn_respond": "conversations/services/respond.py",
        "turn_commit": "conversations/services/commit.py",
    }

    for function, file in hops.items():
        assert f"`{function}`" in text
        assert f"def {function.split('.')[-1]}(" in (ROOT / file).read_text()


def test_the_readme_has_the_generated_settings_table():
    from agentx.management.commands.settings_table import render_table

    assert render_table(VARIABLES) in (ROOT / "README.md").read_text()


def test_every_variable_is_read_somewhere():
    """A setting that nothing reads is a promise that nothing keeps."""
    sources = "\n".join(
        path.read_text()
        for folder in ("agentx", "conversations", "tools", "tests/benchmarks", "Makefile")
        for path in ([ROOT / folder] if (ROOT / folder).is_file() else (ROOT / folder).rglob("*.py"))
        if path.name != "env.py"
    )

    assert [v.name for v in VARIABLES if f'"{v.name}"' not in sources and f"({v.name})" not in sources] == []
