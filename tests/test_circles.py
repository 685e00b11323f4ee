"""No circle of imports: a file can be read, moved and tested without those that use it."""

import ast
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent


def modules() -> dict[str, Path]:
    """Return the files of the product by module name."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    found = {}
    for package, folder in told["package-dir"].items():
        for file in (ROOT / folder).rglob("*.py"):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            if not {"tests", "bundled"} & {*parts}:
                name = ".".join([package, *parts])
                found[name.removesuffix(".__init__")] = file
    return found


def imported(file: Path) -> Iterator[str]:
    """Yield every name that a file imports, in functions and for type checkers, too."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_file_of_the_product_imports_itself_by_way_of_others() -> None:
    known = modules()
    assert len(known) > 100
    graph = {name: {*imported(file)} & known.keys() - {name} for name, file in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(
            f"{' <- '.join(error.args[1])}: move what both need to a file of its own"
        ) from None
