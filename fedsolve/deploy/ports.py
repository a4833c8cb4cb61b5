"""The server's one port: whether it is free here."""

from __future__ import annotations

import errno
import os
import socket

from fedsolve.deploy.kits import Kit
from fedsolve.errors import ConfigError


def check_free(kit: Kit) -> None:
    """Raise ConfigError if a server could not open its port. NVFlare would share a port with another server, so that
    each of them got some of the messages."""
    port = kit.port
    with socket.socket() as end:
        if os.name == "posix":  # a port whose last server has just ended is free
            end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            end.bind(("", port))
            end.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                why = "is in use by another program on this machine, perhaps another server: end that one"
            else:
                why = f"cannot be opened ({error.strerror or error})"
            raise ConfigError(
                f"port {port} of this server {why}, or provision new kits with another port in project.toml"
            ) from None
