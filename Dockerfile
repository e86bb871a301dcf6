# syntax=docker/dockerfile:1
# BUILD has Node.js and npm. BASE needs only glibc and libstdc++, because npm ci installs Node.js.
ARG BUILD=node:24-slim
ARG BASE=debian:bookworm-slim

FROM ${BUILD} AS build
RUN apt-get update && apt-get install -y --no-install-recommends tini
WORKDIR /app
COPY package.json package-lock.json ./
# The secret "npmrc" is an optional configuration of npm. It is not part of the image.
RUN --mount=type=secret,id=npmrc,target=/root/.npmrc \
  npm ci --omit=dev --no-audit --no-fund
# Headers and a second copy of Node.js, source maps and type declarations would be a third of the size.
RUN rm -rf node_modules/node/node_modules && \
  find node_modules -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' \) -delete
COPY openapi.yaml LICENSE ./
COPY scripts/operate scripts/operate
COPY scripts/run/run-to-end.ts scripts/run/
COPY src src
COPY docs/guides docs/guides
RUN mkdir /data

FROM ${BASE}
COPY --from=build /usr/bin/tini-static /usr/bin/tini
COPY --from=build /app /app
COPY --from=build --chown=10001:10001 /data /data
WORKDIR /app
ENV PATH=/app/node_modules/.bin:/usr/local/bin:/usr/bin:/bin \
  NODE_ENV=production HOST=0.0.0.0 DATA_DIR=/data MALLOC_ARENA_MAX=2
# PostgreSQL creates no database for a user without an entry.
RUN echo 'taskwright:x:10001:10001::/data:/usr/sbin/nologin' >>/etc/passwd
# Numeric, because Kubernetes checks it for runAsNonRoot.
USER 10001:10001
VOLUME /data
EXPOSE 3000
# The start period covers the first start without DATABASE_URL, which creates a database.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 3000}/health/ready`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# tini reaps orphaned child processes of a killed worker. The arguments are those of "npm start".
ENTRYPOINT ["tini", "--", "node", "--max-semi-space-size=16", "src/main.js"]
