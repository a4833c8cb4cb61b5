"""What the commands of the command line do; `fedsolve.cli` says how they are called."""
