"""Which file configures a call: the nearest one upwards from the folder in which one works.

Not from the model's folder: models are downloaded from strangers, and a file that came along with one must not decide which
repairs are left out. And one call then has one configuration, whatever models it is given.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

OWN = "rewriter.toml"
SHARED = "pyproject.toml"


def candidates() -> Iterator[Path]:
    """Files that may hold a configuration, the nearest first, up to the top folder of a repository or the home folder.

    Nothing is read. Where everybody may write, as in /tmp, files of others are passed over.
    """
    try:
        here = Path(os.getcwd())
    except OSError:
        return
    home = os.path.expanduser("~")
    for folder in (here, *here.parents):
        for name in (OWN, SHARED):
            path = folder / name
            if _is_ours(path):
                yield path
        if os.path.lexists(folder / ".git") or str(folder) == home:
            return


def _is_ours(path: Path) -> bool:
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            return False
        if not hasattr(os, "getuid") or found.st_uid in (os.getuid(), 0):
            return True
        return not os.stat(path.parent).st_mode & stat.S_IWOTH
    except OSError:
        return False
