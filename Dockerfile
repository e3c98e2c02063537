# docker build -t mgce . && docker run --rm -v "$PWD:/data" mgce fit /data/people.csv --target sick
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install --no-install-recommends -y g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN python -m venv /opt/mgce \
    && MGCE_REQUIRE_KERNEL=1 /opt/mgce/bin/pip install --no-cache-dir --constraint constraints.txt \
       --extra-index-url https://download.pytorch.org/whl/cpu '.[cli]'

FROM python:3.11-slim
# OpenMP, which PyTorch's and scikit-learn's wheels expect of the system.
RUN apt-get update && apt-get install --no-install-recommends -y libgomp1 && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home mgce
COPY --from=build /opt/mgce /opt/mgce
USER mgce
WORKDIR /data
ENTRYPOINT ["/opt/mgce/bin/mgce"]
