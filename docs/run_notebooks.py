"""Executes the notebooks in kernels, as a reader would: `python docs/run_notebooks.py`, with the extras docs and verify."""

from __future__ import annotations

import sys
from pathlib import Path

NOTEBOOKS = Path(__file__).parent / "notebooks"


def main() -> int:
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    failed = 0
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        client = NotebookClient(nbformat.read(path, 4), timeout=300, resources={"metadata": {"path": str(NOTEBOOKS)}})
        try:
            client.execute()
            print(f"{path.name}: passed", flush=True)
        except CellExecutionError as error:
            failed += 1
            print(f"{path.name}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
