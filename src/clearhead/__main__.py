"""`python -m clearhead` is the command line."""

from .cli import main

main()
