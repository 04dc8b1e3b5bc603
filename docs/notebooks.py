"""Notebooks of `examples/`: run their code, store its output in them, and make pages of them.

    python -m docs.notebooks      run all notebooks and store their output

No Jupyter is needed. The code of a notebook runs in one namespace and in an empty folder.
"""

import ast
import base64
import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"


def list_notebooks() -> list[Path]:
    """Return the paths of all notebooks."""
    return sorted(EXAMPLES.glob("*.ipynb"))


def run_notebook(path: Path) -> dict[str, Any]:
    """Return a notebook with the output that its code has now."""
    notebook: dict[str, Any] = json.loads(path.read_text())
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for number, cell in enumerate(code_cells(notebook), 1):
            place = f"{path.name}, cell {number}"
            cell |= {
                "execution_count": number,
                "outputs": run_cell("".join(cell["source"]), place, names),
            }
    return notebook


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of a notebook that hold code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, place: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell; return what it prints, and the value of its last line."""
    tree = ast.parse(source, place)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, place, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), place, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    if value is not None:
        data: dict[str, Any] = {"text/plain": [repr(value)]}
        if hasattr(value, "_repr_png_"):
            picture = base64.b64encode(value._repr_png_()).decode()
            data = {"image/png": picture, "text/plain": ["a picture"]}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    return outputs


def describe_notebook(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its pictures by the names that the Markdown uses."""
    pictures: dict[str, bytes] = {}
    title, *rest = _page_parts(json.loads(path.read_text()), path.stem, pictures)
    note = f"This page is [a notebook](../files/examples/{path.name}), which Jupyter can run."
    return "\n\n".join([title, note, *rest]) + "\n", pictures


def _page_parts(notebook: dict[str, Any], stem: str, pictures: dict[str, bytes]) -> Iterator[str]:
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield from source.split("\n\n")
            continue
        yield f"```python\n{source}\n```"
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text")})
            if "image/png" in data:
                name = f"{stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                yield f"![The picture that this code shows]({name})"
            else:
                yield "```text\n" + "".join(data["text/plain"]).rstrip("\n") + "\n```"


def main() -> None:
    """Run all notebooks and store their output."""
    for path in list_notebooks():
        path.write_text(json.dumps(run_notebook(path), indent=1, ensure_ascii=False) + "\n")
        print(path.name)


if __name__ == "__main__":
    main()
