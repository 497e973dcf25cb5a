# docker build -t onnx-rewriter . && docker run --rm -v "$PWD:/models" onnx-rewriter fix net.onnx -o net.fixed.onnx
FROM python:3.12-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --wheel-dir /wheels ".[verify]"

FROM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels "onnx-rewriter[verify]" && rm -r /wheels \
    && apt-get update && apt-get install -y --no-install-recommends bubblewrap && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home rewriter
USER rewriter
WORKDIR /models
ENTRYPOINT ["rewriter"]
