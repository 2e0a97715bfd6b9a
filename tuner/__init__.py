"""The tuner: a search guided by the cost model and verified by real runs, saved for serving code to load."""

from tuner.configuration import ConfigurationError
from tuner.lookup import find_policy
from tuner.policy import Policy, PolicyChoice

__all__ = ["ConfigurationError", "Policy", "PolicyChoice", "find_policy"]
