"""`python -m adumbra` is the command line."""

from adumbra.cli.start import run

if __name__ == "__main__":
    run()
