"""The product: from photographs to labels, tags and reasons, behind one class."""
