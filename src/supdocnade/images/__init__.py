"""From image files to descriptors."""
