"""Words for what is seen in images, and for what is said of them."""
