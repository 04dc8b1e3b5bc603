"""The index of a folder of photographs, for search by similarity, class and tag."""

from supdocnade.gallery.build import build_gallery
from supdocnade.gallery.photo_index import Gallery, model_fingerprint

__all__ = ["Gallery", "build_gallery", "model_fingerprint"]
