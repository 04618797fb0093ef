"""Join a library that several hosts share, leave it, or take out a host that does not return."""

from deployments.actions.hosts.joining import JoinRequest, join
from deployments.actions.hosts.leaving import leave, take_out

__all__ = ["JoinRequest", "join", "leave", "take_out"]
