"""`python -m rewriter` is the command `rewriter`."""

from rewriter.cli.main import entry

if __name__ == "__main__":
    entry()
