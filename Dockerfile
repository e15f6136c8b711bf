# Two stages: the second holds the built program and its runtime packages, nothing that builds.
FROM node:24-bookworm-slim AS build
WORKDIR /larder
COPY package.json package-lock.json ./
# With the optional packages: storage in a bucket, tracing and native configuration need them.
RUN npm ci --include=optional --ignore-scripts
COPY tsconfig.json build.ts ./
COPY src ./src
RUN npm run build && npm prune --omit=dev --ignore-scripts

FROM node:24-bookworm-slim
ENV NODE_ENV=production LARDER_DATA=/data
# git and ssh fetch modules that are kept in repositories; tini buries what they leave when they are killed.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git openssh-client tini && rm -rf /var/lib/apt/lists/*
WORKDIR /larder
COPY --from=build /larder/node_modules ./node_modules
COPY --from=build /larder/dist ./dist
COPY package.json LICENSE ./
COPY config ./config
COPY assets ./assets
COPY deploy/container/health-check.mjs ./
RUN install -d -o node -g node /data
# By number, so that orchestrators can tell that it is not root.
USER 1000:1000
VOLUME /data
EXPOSE 8443
STOPSIGNAL SIGTERM
# Asks on PORT: where the configuration names another port, give PORT as well.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["node", "health-check.mjs"]
ENTRYPOINT ["tini", "--", "node", "--max-semi-space-size=8", "dist/main.js"]
CMD ["serve"]
