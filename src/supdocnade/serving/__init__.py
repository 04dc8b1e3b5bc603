"""Web page and REST API for a trained model (extra `serve`)."""
