"""Why a server cannot be reached: nobody listens, nobody answers, or a certificate is not trusted at one of the ends.

NVFlare says no more of these than that there is no connection, and takes long to say it. One handshake by TLS tells
them apart: the server's certificate is checked here, and a server that does not trust ours closes the connection.
"""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import dataclass

from fedsolve.deploy.kits import Kit
from fedsolve.errors import ConfigError

KNOCK = 3.0  # seconds for somebody to answer
SURE = 3  # times that a certificate is refused: a server that is just ending closes connections too
_EXPIRED, _NOT_YET_VALID = 10, 9  # X509_V_ERR_CERT_HAS_EXPIRED and X509_V_ERR_CERT_NOT_YET_VALID of OpenSSL


@dataclass(frozen=True)
class Trouble:
    """Why there is no connection.

    certificate  whether a certificate is not trusted, which waiting does not mend
    """

    said: str
    certificate: bool = False


def knock(kit: Kit, seconds: float) -> Trouble | None:
    """Why the server of a kit cannot be spoken to with it; None if it can. Raises ConfigError for a damaged kit."""
    context = _context(kit)
    try:
        plain = socket.create_connection((kit.host, kit.port), seconds)
    except OSError as error:
        said = str(error.strerror or error).lower()
        return Trouble(f"{_server(kit)} cannot be reached: {said}; is `fedsolve server` running there?")
    with plain:
        try:
            with context.wrap_socket(plain) as end:
                answered = bool(end.recv(1))  # the first byte of HTTP/2; a certificate is refused after the handshake
        except ssl.SSLCertVerificationError as error:
            return Trouble(_about_theirs(kit, error), certificate=True)
        except ssl.SSLError as error:
            if "ALERT" in str(error.reason):  # what a server says before it closes the connection, if it says anything
                return Trouble(_about_ours(kit), certificate=True)
            return Trouble(f"{_server(kit)} does not speak TLS ({error.reason}); is another program running there?")
        except TimeoutError:
            return Trouble(f"{_server(kit)} does not answer; is it stopped, or very busy, or another program?")
        except OSError:
            answered = False
    return None if answered else Trouble(_about_ours(kit), certificate=True)


def check_trusted(kit: Kit) -> None:
    """Raise ConfigError if a certificate is not trusted. A server that is not there yet is none of that."""
    for left in reversed(range(SURE)):
        trouble = knock(kit, KNOCK)
        if trouble is None or not trouble.certificate:
            return
        if not left:
            raise ConfigError(trouble.said)
        time.sleep(0.5)


def _context(kit: Kit) -> ssl.SSLContext:
    startup = kit.folder / "startup"
    try:
        context = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
        context.load_cert_chain(startup / "client.crt", startup / "client.key")
    except OSError as error:
        raise ConfigError(f"the kit {kit.folder} is damaged ({error.strerror or error}); ask for a new one") from None
    context.check_hostname = False  # NVFlare compares names later; here the question is who signed
    context.set_alpn_protocols(["h2"])
    return context


def _server(kit: Kit) -> str:
    return f"the server of {kit.project} at {kit.address}"


def _about_theirs(kit: Kit, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
        when = "has expired" if error.verify_code == _EXPIRED else "is not valid yet"
        return f"the certificate of {_server(kit)} {when}, by the clock of this machine: it needs a new kit"
    return (
        f"{_server(kit)} has a certificate that the authority of the kit {kit.folder} did not sign: server and kit are "
        "of different projects, or of different calls of `fedsolve provision`; get both kits from one"
    )


def _about_ours(kit: Kit) -> str:
    return (
        f"{_server(kit)} does not accept the certificate of the kit {kit.folder}: another authority signed it, or it "
        "has expired; ask for a new kit"
    )
