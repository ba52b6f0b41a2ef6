# SPDX-License-Identifier: Apache-2.0
"""Runs the notebooks and makes pages of them: python docs/site/notebooks.py [NAME...] writes their outputs anew.

A notebook is run cell by cell in this process: what it prints, the value of a cell's last line and the figures it draws
are its outputs. That is all ours need, and takes no kernel and no server. sow's results are the same bits everywhere, so
the tests run the notebooks again and compare what they say with what is stored; a cell tagged "varies" may differ.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import pathlib
import sys
from typing import Any

Cell = dict[str, Any]
FOLDER = pathlib.Path(__file__).resolve().parents[1] / "notebooks"


def figures() -> list[Cell]:
    """The figures that are open, as outputs; they are closed."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    found: list[Cell] = []
    for number in pyplot.get_fignums() if pyplot else []:
        picture = io.BytesIO()
        pyplot.figure(number).savefig(picture, format="png", dpi=110, transparent=True)
        data = base64.b64encode(picture.getvalue()).decode()
        found.append({"output_type": "display_data", "metadata": {}, "data": {"image/png": data, "text/plain": ["<Figure>"]}})
        pyplot.close(number)
    return found


def run_cell(source: str, names: dict[str, Any], where: str) -> list[Cell]:
    tree = ast.parse(source, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, outputs = io.StringIO(), []
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)
        value = eval(compile(ast.Expression(last.value), where, "eval"), names) if last else None
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)})
    drawn = figures()
    if value is not None and not drawn:
        outputs.append({"output_type": "execute_result", "metadata": {}, "execution_count": None,
                        "data": {"text/plain": repr(value).splitlines(keepends=True)}})
    return outputs + drawn


def run(path: pathlib.Path) -> list[list[Cell]]:
    """The outputs of every code cell of a notebook, in order."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update(matplotlib.rcParamsDefault)
    matplotlib.use("agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = json.loads(path.read_text())["cells"]
    return [run_cell("".join(cell["source"]), names, f"{path.name}[{number}]")
            for number, cell in enumerate(cells) if cell["cell_type"] == "code"]


def words(outputs: list[Cell]) -> str:
    """What outputs say, without pictures."""
    return "".join("".join(out.get("text") or out["data"]["text/plain"]) for out in outputs)


def store(path: pathlib.Path) -> None:
    notebook = json.loads(path.read_text())
    results = iter(run(path))
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"], cell["outputs"] = count, next(results)
            for out in cell["outputs"]:
                if out["output_type"] == "execute_result":
                    out["execution_count"] = count
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def page(path: pathlib.Path, pages: pathlib.Path) -> None:
    """Writes a notebook as a Markdown page, its pictures beside it."""
    parts, drawn = [], 0
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for out in cell["outputs"]:
            data = out.get("data", {})
            if "image/png" in data:
                drawn += 1
                picture = f"{path.stem}-{drawn}.png"
                (pages / picture).write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![a figure of this notebook]({picture})")
            else:
                parts.append("```text\n" + words([out]).rstrip("\n") + "\n```")
    parts.append(f"{{download}}`This page as a notebook <{path.name}>`")
    (pages / f"{path.stem}.md").write_text("\n\n".join(parts) + "\n")


def main() -> None:
    for path in sorted(FOLDER.glob("*.ipynb")):
        if len(sys.argv) == 1 or path.stem in sys.argv[1:]:
            store(path)
            print(path.name)


if __name__ == "__main__":
    main()
