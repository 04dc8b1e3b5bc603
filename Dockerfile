# The server of a model, without root: docs/tools.md says how to build and to run it.
FROM python:3.11-slim

ARG PIP_EXTRA_INDEX_URL
ARG EXTRAS=deep,serve

WORKDIR /opt/supdocnade
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir --constraint constraints.txt ".[${EXTRAS}]" \
    && useradd --system --create-home --uid 10001 supdocnade

USER 10001
WORKDIR /home/supdocnade
ENV NUMBA_CACHE_DIR=/tmp/numba PYTHONUNBUFFERED=1
EXPOSE 8000
VOLUME ["/models"]
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["supdocnade", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/models/scenes"]
