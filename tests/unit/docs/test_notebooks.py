"""The notebooks run, and become pages."""

import json

import pytest
from docs import notebooks


def kinds(notebook):
    """Return the kinds of the outputs of every cell."""
    return [
        [sorted(output.get("data", {"stream": None})) for output in cell["outputs"]]
        for cell in notebooks.code_cells(notebook)
    ]


@pytest.mark.parametrize("path", notebooks.list_notebooks(), ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    stored = json.loads(path.read_text())
    assert (stored["nbformat"], stored["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in stored["cells"]}) == len(stored["cells"])
    assert path.stat().st_size < 150_000
    found = notebooks.run_notebook(path)
    # Figures may differ between machines; `make notebooks` stores those of this one.
    assert kinds(found) == kinds(stored)
    assert any(kinds(found))


def test_there_are_notebooks_for_photographs_text_and_explanations():
    assert {path.stem for path in notebooks.list_notebooks()} >= {
        *("photographs", "text", "explanation")
    }


def test_a_notebook_becomes_a_page(tmp_path):
    picture = "from PIL import Image\nImage.new('L', (2, 2))"
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "\n", "Text."]},
        {"cell_type": "code", "source": ["a = 2\n", "print(a)\n", "a + 1"]},
        {"cell_type": "code", "source": [picture]},
    ]
    path = tmp_path / "sums.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    path.write_text(json.dumps(notebooks.run_notebook(path)))
    text, pictures = notebooks.describe_notebook(path)
    assert text.split("\n\n") == [
        "# Title",
        "This page is [a notebook](../files/examples/sums.ipynb), which Jupyter can run.",
        "Text.",
        "```python\na = 2\nprint(a)\na + 1\n```",
        "```text\n2\n```",
        "```text\n3\n```",
        f"```python\n{picture}\n```",
        "![The picture that this code shows](sums-1.png)\n",
    ]
    assert pictures["sums-1.png"].startswith(b"\x89PNG")


def test_an_error_names_the_notebook_and_the_cell(tmp_path):
    path = tmp_path / "wrong.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": ["1 / 0"]}]}))
    with pytest.raises(ZeroDivisionError) as caught:
        notebooks.run_notebook(path)
    assert str(caught.traceback[-1].path) == "wrong.ipynb, cell 1"
