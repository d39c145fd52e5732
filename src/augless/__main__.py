"""`python -m augless` is the command line."""

from augless.cli import main

main()
