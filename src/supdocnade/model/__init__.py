"""The networks of the paper as torch modules."""

from supdocnade.model.config import DocNADEConfig, SupDocNADEConfig
from supdocnade.model.network import DocNADENetwork, SupDocNADENetwork

__all__ = ["DocNADEConfig", "DocNADENetwork", "SupDocNADEConfig", "SupDocNADENetwork"]
