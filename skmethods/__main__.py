"""``python -m skmethods``: the tour."""

import sys


def main():
    """Run the tour with the arguments of the command line."""
    from ._tour import main as tour

    return tour(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
