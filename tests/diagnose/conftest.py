from tests.cli.conftest import command, run_file

__all__ = ["command", "run_file"]
