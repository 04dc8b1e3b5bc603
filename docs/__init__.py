"""The pages of the documentation, and the code that makes a site of them."""
