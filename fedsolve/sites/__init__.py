"""What one organisation runs: its own data, its own policy, its own log, and answers to the questions of a run.

Nothing here knows which engine carries the messages. `Site` answers encoded requests; `SiteProcess` runs one in a
child process, so that a crash is one failed reply; `SiteTransport` is the server's end over any `Carrier`.
"""

from fedsolve.sites.carrier import Carrier
from fedsolve.sites.local_carrier import LocalCarrier
from fedsolve.sites.policy import Policy
from fedsolve.sites.site import Site
from fedsolve.sites.site_file import SiteFile, read_site_file
from fedsolve.sites.site_process import SiteProcess
from fedsolve.sites.terms import HeldOut, SiteColumn, Terms
from fedsolve.sites.transport import SiteTransport

__all__ = [
    "Carrier",
    "HeldOut",
    "LocalCarrier",
    "Policy",
    "Site",
    "SiteColumn",
    "SiteFile",
    "SiteProcess",
    "SiteTransport",
    "Terms",
    "read_site_file",
]
