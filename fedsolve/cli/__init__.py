"""What the commands of the command line do; `fedsolve.cli.main` says how they are called."""
