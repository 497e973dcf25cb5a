"""The places of files other than Python modules: `grammar/` and `rules/` are packages of an installation, and top folders of a
checkout.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import rewriter


def resource(name: str) -> Path:
    """The file or folder of a name such as "grammar/rules.lark" or "rules".

    Raises FileNotFoundError when neither the installed packages nor the checkout have it.
    """
    top, _, rest = name.partition("/")
    spec = find_spec(f"rewriter.{top}")
    installed = [Path(place) for place in spec.submodule_search_locations or ()] if spec else []
    for folder in (*installed, Path(rewriter.__file__).parent.parent / top):
        if (folder / rest).exists():
            return folder / rest
    raise FileNotFoundError(f"{name} is missing from this installation of rewriter")
