# An image that takes the place of the official ZooKeeper image: the same variables, folders, ports and user number, and
# nothing in it but zkd. There is no shell: zkd reads ZOO_* itself.
#
#   docker build --build-arg VERSION=… --build-arg REVISION=$(git rev-parse HEAD) \
#     --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) -t zkd .
#
# buildah and podman build it too; of an older one (1.28) --build-arg TARGETARCH=amd64 is wanted besides.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETARCH VERSION=0.0.0-dev REVISION=unknown SOURCE_DATE_EPOCH=0
RUN go run ./conf/package dist -targets "linux/$TARGETARCH" -packages=false -out /dist \
 && mkdir -p /image/usr/bin /image/usr/share/doc/zkd /image/etc /image/tmp /folders/conf /folders/data \
      /folders/datalog /folders/logs \
 && tar -xzf /dist/zkd_*.tar.gz -C /dist --strip-components=1 \
 && cp /dist/zkd /image/usr/bin/ \
 && cp /dist/LICENSE /dist/THIRD_PARTY.txt /dist/zkd_*.cdx.json /image/usr/share/doc/zkd/ \
 && echo 'zookeeper:x:1000:1000::/data:/sbin/nologin' >/image/etc/passwd \
 && echo 'zookeeper:x:1000:' >/image/etc/group \
 && chmod 1777 /image/tmp && chmod 0750 /folders/data /folders/datalog /folders/logs

FROM scratch
COPY --from=build /image/ /
# The official image owns these too, so that volumes of the one serve the other.
COPY --from=build --chown=1000:1000 /folders/ /

# What the official image sets. A zoo.cfg in /conf counts before all of it.
ENV PATH=/usr/bin \
    ZOO_CONF_DIR=/conf \
    ZOO_DATA_DIR=/data \
    ZOO_DATA_LOG_DIR=/datalog \
    ZOO_TICK_TIME=2000 \
    ZOO_INIT_LIMIT=5 \
    ZOO_SYNC_LIMIT=2 \
    ZOO_AUTOPURGE_PURGEINTERVAL=0 \
    ZOO_AUTOPURGE_SNAPRETAINCOUNT=3 \
    ZOO_MAX_CLIENT_CNXNS=60 \
    ZOO_STANDALONE_ENABLED=true \
    ZOO_ADMINSERVER_ENABLED=true

USER 1000:1000
WORKDIR /data
VOLUME ["/data", "/datalog", "/logs"]
EXPOSE 2181 2888 3888 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/zkd"]
CMD ["serve"]
