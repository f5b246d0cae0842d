"""`python -m sayso`: the command line."""

from sayso.cli import main

if __name__ == "__main__":
    main()
