"""Rule packs: packages that contain rule files, registered by the entry point group `rewriter.rules`.

    [project.entry-points."rewriter.rules"]
    mycompany = "mycompany_rules.shipped"

The value is a folder of the package, with dots, and the package is found as Python would find it, but never imported: rules are
text, and reading them must not run other contents of a package.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from rewriter.core.errors import RewriterError
from rewriter.core.record import record

GROUP = "rewriter.rules"


@record(frozen=True, slots=True)
class Pack:
    """An installed pack: the name of its entry point, its distribution with the version, and its folder."""

    name: str
    distribution: str
    folder: Path


def packs() -> list[Pack]:
    """All installed packs whose folders exist, by name."""
    found = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        folder = _folder(entry)
        if folder is not None:
            found.append(Pack(entry.name, _distribution(entry), folder))
    return found


def pack_folder(name: str) -> Path:
    """The folder of a pack.

    Raises:
        RewriterError: no installed package provides it, several do, or its folder is missing.
    """
    entries = list(entry_points(group=GROUP, name=name))
    if not entries:
        known = sorted({entry.name for entry in entry_points(group=GROUP)})
        hint = f"there are {', '.join(known)}" if known else "no installed package brings any"
        raise RewriterError(f"there is no rule pack {name!r}; {hint}")
    folders = {folder for folder in map(_folder, entries) if folder is not None}
    if len(folders) > 1:
        raise RewriterError(f"rule pack {name!r} is brought by {' and '.join(sorted(map(_distribution, entries)))}")
    if not folders:
        raise RewriterError(f"rule pack {name!r} of {_distribution(entries[0])}: there is no folder {entries[0].value!r}")
    return folders.pop()


def _folder(entry: EntryPoint) -> Path | None:
    top, *rest = entry.value.replace(":", ".").split(".")
    try:
        spec = find_spec(top)  # of a top package, so that nothing is imported; also uses the finders of editable installations
    except ValueError:
        return None
    if spec is None:
        return None
    places = spec.submodule_search_locations or []
    return next((folder for place in places if (folder := Path(place, *rest)).is_dir()), None)


def _distribution(entry: EntryPoint) -> str:
    found = entry.dist
    return "an unknown distribution" if found is None else f"{found.name} {found.version}"
