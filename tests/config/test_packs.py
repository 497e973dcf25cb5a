"""Rule packs of installed packages, none of whose code may run."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

import pytest

from rewriter.core.errors import RewriterError
from rewriter.rule_tools.load_rules import pack_folder, packs
from tests.cli.call import GEMM, Call

RULE = "/// Nothing.\nrule ACME001 nothing <kind: exact>\nmatch { y = Identity(x) }\nrewrite { y = x }\n"


def install(site: Path, package: str, entries: str) -> None:
    folder = site / package / "shipped" / "deep"
    folder.mkdir(parents=True)
    for code in (site / package, folder.parent):
        (code / "__init__.py").write_text("raise SystemExit('this package was imported')")
    (folder / "one.rules").write_text(RULE)
    info = site / f"{package}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[rewriter.rules]\n{entries}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    install(folder, "acme_rules", "acme = acme_rules.shipped\nlost = acme_rules.nowhere")
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    return folder


def test_packs_are_found_without_importing_them(site: Path) -> None:
    assert [(pack.name, pack.distribution) for pack in packs()] == [("acme", "acme_rules 1.2")]
    assert pack_folder("acme") == site / "acme_rules" / "shipped"
    assert "acme_rules" not in sys.modules


def test_a_pack_installed_in_editable_mode_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip and setuptools then put a finder of their own in place, and no folder of the package on the path."""
    install(tmp_path / "site", "acme_rules", "acme = acme_rules.shipped")
    (tmp_path / "site" / "acme_rules").rename(tmp_path / "acme_rules")

    class Finder:
        @classmethod
        def find_spec(cls, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
            return PathFinder.find_spec(name, [str(tmp_path)]) if name == "acme_rules" else None

    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert pack_folder("acme") == tmp_path / "acme_rules" / "shipped"
    assert "acme_rules" not in sys.modules


def test_what_cannot_be_found(site: Path) -> None:
    with pytest.raises(RewriterError, match=r"there is no rule pack 'acne'; there are acme, lost"):
        pack_folder("acne")
    with pytest.raises(RewriterError, match=r"'lost' of acme_rules 1.2: there is no folder 'acme_rules.nowhere'"):
        pack_folder("lost")
    install(site, "other", "acme = other.shipped")
    with pytest.raises(RewriterError, match=r"several packages have a rule pack 'acme': acme_rules 1.2 and other 1.2"):
        pack_folder("acme")


def test_rules_of_a_pack_run(site: Path, call: Call) -> None:
    assert call("rules", "--packs").out == f"pack:acme  1 rule file, acme_rules 1.2, {site / 'acme_rules' / 'shipped'}\n"
    assert [line.split()[0] for line in call("rules", "--rules", "pack:acme").out.splitlines()] == ["any", "ACME001*"]
    assert call("check", GEMM, "--rules", "pack:acme", "--runtime", "no").code == 0
    assert "there is no rule pack 'acne'" in call("check", GEMM, "--rules", "pack:acne").err
    assert "acme_rules" not in sys.modules
