from tests.cli.conftest import command

__all__ = ["command"]
