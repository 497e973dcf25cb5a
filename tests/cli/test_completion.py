"""Words that a shell may offer, asked for as argcomplete asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

POOL = Path(__file__).parent.parent / "models" / "pytorch-2.13-max-pool-of-an-image" / "model.onnx"


def offered(line: str, tmp_path: Path) -> list[str]:
    """What argcomplete writes when a shell completes a line."""
    answers = tmp_path / "answers"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answers),
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    done = subprocess.run([sys.executable, "-m", "rewriter"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return answers.read_text().split("\n")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("rewriter ch", "check"),
        ("rewriter fix --in-pl", "--in-place"),
        ("rewriter fix --select MX00", "MX001"),
        ("rewriter fix --select MX001,pt03", "MX001,pt030"),
        ("rewriter check --target ten", "tensorrt"),
        ("rewriter rule JAX", "JAX001"),
        ("rewriter explain e10", "e103"),
        ("rewriter help pla", "plan"),
        (f"rewriter why PT030 {POOL} /", "/MaxPool"),
    ],
)
def test_the_words_that_may_follow(line: str, word: str, tmp_path: Path) -> None:
    assert word in offered(line, tmp_path)


def test_a_model_that_cannot_be_read_has_no_nodes(tmp_path: Path) -> None:
    assert offered(f"rewriter why PT030 {__file__} /zz", tmp_path) == [""]


SCRIPTS = Path(sys.executable).parent
HOOK = "register-python-argcomplete"

BASH = f"""eval "$({HOOK} rewriter)"
COMP_LINE=$LINE COMP_POINT=${{#LINE}} COMP_TYPE=9 COMP_WORDS=($LINE)
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_python_argcomplete rewriter "${{COMP_WORDS[-1]}}" rewriter
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

FISH = f"""{HOOK} --shell fish rewriter | source
complete -C $LINE
"""

ZSH = f"""zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'autoload -U compinit; compinit -u; eval "$({HOOK} rewriter)"; echo hook-is-there'
zpty -r shell said '*
hook-is-there*'
zpty -w -n shell "$LINE"$'\\t'
zpty -r shell said "*$WORD*"
echo $said
"""


@pytest.mark.parametrize(("shell", "script"), [("bash", BASH), ("fish", FISH), ("zsh", ZSH)])
@pytest.mark.parametrize(("line", "word"), [("rewriter che", "check"), ("rewriter fix --in-pl", "--in-place")])
def test_shells_complete(shell: str, script: str, line: str, word: str) -> None:
    """As docs/ci.md says how to switch it on."""
    if shutil.which(shell) is None or not (SCRIPTS / HOOK).exists() or not (SCRIPTS / "rewriter").exists():
        pytest.skip(f"needs {shell}, and commands that are installed")
    environment = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}", "LINE": line, "WORD": word}
    done = subprocess.run([shell, "-c", script], env=environment, capture_output=True, text=True)
    assert word in done.stdout, done.stderr
