"""A folder of photographs, indexed: which are like this one, which have this tag."""

from supdocnade.gallery.building import build_gallery
from supdocnade.gallery.gallery import Gallery
from supdocnade.gallery.rows import model_fingerprint

__all__ = ["Gallery", "build_gallery", "model_fingerprint"]
