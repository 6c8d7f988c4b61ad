# syntax=docker/dockerfile:1

# The image of walferry: the binary, the shared libraries it is linked with, the CA certificates, and nothing
# else. No shell, no package manager, no user but 65532.
#
#   docker build --build-arg VERSION=0.1.0 --build-arg REVISION="$(git rev-parse HEAD)" -t walferry .
#
# `scripts/image` builds it with buildah and runs what it built, also on a machine that cannot pull base images.

ARG RUST_VERSION=1.95

FROM rust:${RUST_VERSION}-bookworm AS builder
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
COPY src src
COPY config config
# What `build_info{revision}` says.
ARG REVISION=unknown
# `--frozen`, where the registry is mounted and there is no network.
ARG CARGO_FLAGS=--locked
# The cache mount makes a second build compile walferry alone, not its dependencies.
RUN --mount=type=cache,target=/src/target,sharing=locked \
    WALFERRY_REVISION="${REVISION}" cargo build --release ${CARGO_FLAGS} --bin walferry \
    && install -D -m 0755 target/release/walferry /out/walferry \
    && strip --strip-debug /out/walferry
COPY deploy/image-root /usr/local/bin/image-root
RUN image-root /out/walferry /rootfs

FROM scratch
COPY --from=builder /rootfs/ /
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="walferry" \
      org.opencontainers.image.description="Streams the committed changes of a PostgreSQL database to Kafka as Avro." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# The container's own address: a listener on 127.0.0.1 is out of reach of probes and Prometheus.
# SSL_CERT_FILE is read by OpenSSL (Kafka) and by rustls's native roots (Postgres, the schema registry).
ENV WALFERRY__HTTP__LISTEN=0.0.0.0:8080 \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/bin/walferry", "health"]
ENTRYPOINT ["/usr/bin/walferry"]
CMD ["run"]
