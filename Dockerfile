# Run `make wheel` first: the image installs that wheel, with the versions of requirements.lock.
FROM python:3.11-slim AS build
COPY dist/*.whl dist/constraints.txt /dist/
RUN python -m venv /opt/catchment \
    && /opt/catchment/bin/pip install --no-cache-dir --constraint /dist/constraints.txt "$(echo /dist/*.whl)[postgres]"

FROM python:3.11-slim
COPY --from=build /opt/catchment /opt/catchment
RUN useradd --uid 10001 --no-create-home catchment \
    && install --directory --owner=catchment --mode=0700 /data
ENV PATH=/opt/catchment/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp CATCHMENT_HOME=/data
USER 10001
VOLUME /data
EXPOSE 4210
HEALTHCHECK --interval=60s --timeout=20s --start-period=120s CMD ["catchment", "check"]
ENTRYPOINT ["catchment"]
CMD ["up", "--listen", "0.0.0.0", "--allow-host", "localhost:4210"]
