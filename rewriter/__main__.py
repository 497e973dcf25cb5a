"""`python -m rewriter` is the command `rewriter`."""

from rewriter.app.cli.main import entry

if __name__ == "__main__":
    entry()
