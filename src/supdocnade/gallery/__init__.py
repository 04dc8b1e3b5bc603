"""A folder of photographs, indexed: which are like this one, which have this tag."""

from supdocnade.gallery.build import build_gallery
from supdocnade.gallery.photo_index import Gallery, model_fingerprint

__all__ = ["Gallery", "build_gallery", "model_fingerprint"]
