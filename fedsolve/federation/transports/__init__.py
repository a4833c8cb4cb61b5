"""Transports: how requests reach the clients and replies come back."""

from fedsolve.federation.transports.base import Transport
from fedsolve.federation.transports.in_process import InProcess
from fedsolve.federation.transports.processes import Processes

__all__ = ["InProcess", "Processes", "Transport"]
