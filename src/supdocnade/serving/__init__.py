"""A trained model behind a web page and a REST API (extra `serve`)."""
