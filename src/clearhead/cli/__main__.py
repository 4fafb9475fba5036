"""`python -m clearhead.cli`: the commands where the package is on the path but not installed."""

from .app import main

main()
