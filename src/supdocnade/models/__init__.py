"""The networks of the paper as torch modules."""

from supdocnade.models.config import DocNADEConfig, SupDocNADEConfig
from supdocnade.models.docnade import DocNADENetwork
from supdocnade.models.supdocnade import SupDocNADENetwork

__all__ = ["DocNADEConfig", "DocNADENetwork", "SupDocNADEConfig", "SupDocNADENetwork"]
