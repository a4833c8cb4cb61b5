"""The same requests and replies by different roads."""

from fedsolve.transports.base import Transport
from fedsolve.transports.in_process import InProcess
from fedsolve.transports.processes import Processes

__all__ = ["InProcess", "Processes", "Transport"]
